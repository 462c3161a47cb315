/// tutti-perf: measures and checks the operations. `tutti-perf --help` says how.
#include <fmt/core.h>

#include <cstdlib>
#include <exception>

#include "perf/launch.hpp"
#include "perf/settings.hpp"
#include "perf/sweep.hpp"

namespace {

using namespace tutti;

bool run(const perf::Settings& settings) {
  return perf::run_ranks("tutti-perf", settings,
                         [&](Communicator& comm) { return perf::sweep(comm, settings, stdout); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto command = perf::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    return run(std::get<perf::Settings>(command)) ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-perf: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
