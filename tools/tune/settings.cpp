#include "tune/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "command_line.hpp"
#include "output_file.hpp"
#include "own_ranks.hpp"
#include "topology/discover.hpp"
#include "tuning/file.hpp"

namespace tutti::tune {

namespace {

/// What is named twice is measured once.
template <class T>
void drop_repeated(std::vector<T>& values) {
  std::vector<T> once;
  for (const T& value : values)
    if (std::ranges::find(once, value) == once.end()) once.push_back(value);
  values = std::move(once);
}

/// The report would take the place of the constants.
void require_own_json(const Settings& settings) {
  std::string constants = settings.file;
  if (constants.empty() && settings.options.tuning != "off")
    constants = tuning::file_of(topology::hash_of_parts(topology::discover()));
  if (!constants.empty() && is_same_file(settings.json, constants))
    throw CLI::ValidationError("--json", "wants a file of its own, not that of the constants");
}

}  // namespace

std::variant<Settings, int> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  std::uint64_t largest = settings.largest;
  CLI::App app(
      "Measures on this machine what messages and memory cost, and writes the constants to a file from which "
      "communicators then choose their algorithms.");
  constexpr int most_ranks = 64, most_rounds = 1000;
  app.add_option("-r,--ranks", settings.ranks, "Numbers of local ranks to measure (default 2 4 8)")
      ->check(CLI::Range(2, most_ranks));
  app.add_option("--transport", settings.transports,
                 "What to measure, among ranks of this machine: shm, tcp, verbs (default shm)")
      ->check(transport_name());
  app.add_option("-e,--largest", largest, "Largest size (default 64M)")
      ->transform(size(most_bytes, smallest));
  app.add_option("--rounds", settings.rounds, "Rounds; every figure is their lower quartile (default 9)")
      ->check(CLI::Range(1, most_rounds));
  app.add_flag("--check", settings.check,
               "Measure all algorithms and the library's choice, and say how much the choice loses and how "
               "well its time was predicted");
  app.add_option("-f,--file", settings.file,
                 "The file of constants (default: where communicators look for it)")
      ->check(file_name());
  app.add_option("--json", settings.json,
                 "Write what --check measured to this file as well; -: to stdout, and the text to stderr")
      ->needs("--check")
      ->check(file_name());
  return settings_or_end(app, settings, [&] {
    app.parse(argc, argv);
    settings.largest = largest;
    drop_repeated(settings.ranks);
    drop_repeated(settings.transports);
    settings.options = Options::from_environment();
    if (settings.file == "-") throw CLI::ValidationError("--file", "- is no file for communicators to read");
    if (settings.file.empty() && settings.options.tuning == "off") {
      if (!settings.check)
        throw CLI::ValidationError("--file",
                                   "TUTTI_TUNING is off, so communicators look at no file; name one");
    } else if (settings.file.empty()) {
      settings.file = settings.options.tuning;
    }
    if (!settings.json.empty()) require_own_json(settings);
    check_own_ranks(*std::ranges::max_element(settings.ranks), settings.options.timeout, "start one process");
  });
}

}  // namespace tutti::tune
