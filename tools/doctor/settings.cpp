#include "doctor/settings.hpp"

#include "command_line.hpp"
#include "own_ranks.hpp"

namespace tutti::doctor {

std::variant<Settings, int> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  CLI::App app(
      "Says what tutti can use on this machine, and what to do about the rest.\n"
      "Under mpirun, mpiexec or srun it looks at every machine, and measures every pair of ranks.");
  app.add_option("--ranks", settings.ranks, "Start this many ranks on this machine, and measure their pairs")
      ->check(CLI::Range(2, 1024));
  app.add_flag("!--no-pairs", settings.pairs, "Do not measure pairs of ranks");
  app.add_option("--transport", settings.options.transport, "Measure this transport: shm, verbs or tcp")
      ->check(transport_name());
  app.add_option("--interface", settings.options.interface, "Network interface by which ranks meet");
  add_timeout(app, settings.options.timeout);
  app.add_option("--json", settings.json, "Write the findings to this file as well; -: to stdout instead")
      ->check(file_name());
  return settings_or_end(app, settings, [&] {
    parse_over_environment(app, argc, argv, settings.options);
    // Nobody else may look at it, and no --transport would take what a remedy says.
    if (std::string& transport = settings.options.transport; !transport.empty())
      if (const std::string why = transport_name()(transport); !why.empty())
        throw CLI::ValidationError("TUTTI_TRANSPORT", why);
    check_own_ranks(settings.ranks, settings.options.timeout);
  });
}

}  // namespace tutti::doctor
