/// tutti-perf: measures and checks the operations. `tutti-perf --help` says how.
#include <fmt/core.h>

#include <cstdlib>
#include <exception>

#include "perf/launch.hpp"
#include "perf/settings.hpp"
#include "perf/sweep.hpp"

namespace {

using namespace tutti;

bool run_all(const perf::Settings& settings) {
  const auto rank_body = [&](Communicator& comm) {
    try {
      return perf::sweep(comm, settings, stdout);
    } catch (const Error& error) {
      fmt::print(stderr, "tutti-perf: rank {}: {}\n", comm.rank(), error.what());
      throw;
    }
  };
  if (settings.ranks > 0 && settings.threads) return perf::run_threads(settings, rank_body);
  if (settings.ranks > 0) return perf::run_processes(settings, rank_body);
  Communicator comm = Communicator::from_environment(settings.options);
  return rank_body(comm);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto command = perf::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    return run_all(std::get<perf::Settings>(command)) ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-perf: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
