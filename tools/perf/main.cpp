/// tutti-perf: measures and checks the operations. `tutti-perf --help` says how.
#include <cstdlib>

#include "output_file.hpp"
#include "perf/launch.hpp"
#include "perf/settings.hpp"
#include "perf/sweep.hpp"
#include "run_tool.hpp"

namespace {

using namespace tutti;

bool run(const perf::Settings& settings) {
  return perf::run_ranks("tutti-perf", settings, [&](Communicator& comm) {
    return perf::sweep(comm, settings, words_beside(settings.json));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("tutti-perf", [&] {
    const auto command = perf::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    return run(std::get<perf::Settings>(command)) ? EXIT_SUCCESS : EXIT_FAILURE;
  });
}
