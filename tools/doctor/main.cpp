/// tutti-doctor: what tutti can use here, in words and with remedies. `tutti-doctor --help` says how.
#include <cstdlib>

#include "doctor/consultation.hpp"
#include "doctor/launch.hpp"
#include "doctor/settings.hpp"
#include "run_tool.hpp"

int main(int argc, char** argv) {
  using namespace tutti::doctor;
  return tutti::run_tool("tutti-doctor", [&] {
    const auto command = parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    const auto& settings = std::get<Settings>(command);
    if (settings.ranks > 0)
      if (const auto status = start_ranks(settings.ranks, settings.options)) return *status;
    return consult(settings, stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
  });
}
