/// tutti-doctor: what tutti can use here, in words and with remedies. `tutti-doctor --help` says how.
#include <fmt/core.h>

#include <cstdlib>
#include <exception>

#include "doctor/consultation.hpp"
#include "doctor/launch.hpp"
#include "doctor/settings.hpp"

int main(int argc, char** argv) {
  using namespace tutti::doctor;
  try {
    const auto command = parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    const auto& settings = std::get<Settings>(command);
    if (settings.ranks > 0)
      if (const auto status = start_ranks(settings.ranks, settings.options.interface)) return *status;
    return consult(settings, stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-doctor: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
