/// tutti-tune: measures this machine's constants, from which algorithms are then chosen. `tutti-tune --help`
/// says how.
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <tutti/error.hpp>

#include "output_file.hpp"
#include "run_tool.hpp"
#include "topology/discover.hpp"
#include "tune/check.hpp"
#include "tune/measure.hpp"
#include "tune/settings.hpp"
#include "tuning/decide.hpp"
#include "tuning/file.hpp"

namespace {

using namespace tutti;

constexpr std::array collectives = {
    Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::all_to_all,
    Collective::broadcast,  Collective::reduce,         Collective::gather,     Collective::scatter};

// Every fourth power of two, from one element on.
std::vector<std::size_t> sizes(std::size_t largest) {
  constexpr std::size_t smallest = 8, factor = 4;
  std::vector<std::size_t> all;
  for (std::size_t bytes = smallest; bytes <= largest; bytes *= factor) all.push_back(bytes);
  if (all.empty()) throw Error(ErrorCode::invalid_argument, "the largest size must be at least 8 bytes");
  return all;
}

tune::Series series(const tune::Settings& settings, const std::string& transport, int ranks, bool chosen) {
  return {.transport = transport,
          .ranks = ranks,
          .collectives = {collectives.begin(), collectives.end()},
          .sizes = sizes(settings.largest),
          .chosen = chosen};
}

void print(std::FILE* to, const tuning::Curve& curve) {
  constexpr double nano = 1e9;
  fmt::print(to, "# {} {} ranks\n{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", curve.transport, curve.ranks,
             "bytes", "call ns", "alpha ns", "message", "step ns", "copy GB/s", "fold GB/s");
  for (const auto& [bytes, c, factors] : curve.points)
    fmt::print(to, "{:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.2f} {:>9.2f}\n", bytes, c.call * nano,
               c.alpha * nano, c.overhead * nano, c.step * nano, 1 / (c.copy * nano), 1 / (c.fold * nano));
  std::fflush(to);
}

// Takes the place of the file once it is complete, for communicators that are just made; else it goes away.
class Draft {
 public:
  // Made with its folder, before the work that takes long.
  explicit Draft(std::string file) : file_(std::move(file)) {
    namespace fs = std::filesystem;
    if (file_.empty())
      throw Error(ErrorCode::invalid_argument,
                  "neither XDG_CACHE_HOME nor HOME says where communicators look; name a file with --file");
    std::error_code none;  // writing the draft says that it did not work
    if (const auto parent = fs::path(file_).parent_path(); !parent.empty())
      fs::create_directories(parent, none);
    if (fs::exists(file_, none) && !fs::is_regular_file(file_, none)) cannot_write(file_);
    const OutputFile trial(draft_);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    std::error_code none;
    std::filesystem::remove(draft_, none);
  }

  void complete(const std::string& text) {
    OutputFile(draft_).write(text);
    std::filesystem::rename(draft_, file_);
  }

 private:
  std::string file_, draft_ = file_ + ".new";
};

void tune_machine(tune::Settings settings, const std::string& file, std::uint64_t machine) {
  Draft draft(file);
  settings.options.tuning = "off";  // every algorithm is forced
  std::vector<tuning::Curve> curves;
  for (const std::string& transport : settings.transports)
    for (const int ranks : settings.ranks) {
      std::vector<tuning::Sample> samples;
      for (const auto& one : tune::measure(series(settings, transport, ranks, false), settings))
        samples.push_back(one.sample);
      curves.push_back(tuning::fit_curve(samples));
      print(stdout, curves.back());
    }
  tuning::Tuning tuning(machine, std::move(curves));
  for (const tuning::Curve& curve : tuning.curves()) {
    const tuning::Scene scene{.transport = curve.transport, .ranks = curve.ranks};
    tuning.keep(scene, tuning::decide_all(tuning, scene, settings.largest));
  }
  draft.complete(tuning::to_json(tuning));
  fmt::print("written: {}\n", file);
}

void check_machine(tune::Settings settings, const std::string& file) {
  std::shared_ptr<const tuning::Tuning> tuning = tuning::Tuning::defaults();
  if (!settings.file.empty() || std::filesystem::exists(file)) {
    tuning = tuning::load(file);
    settings.options.tuning = file;
  } else {
    const std::string why = settings.options.tuning == "off" ? "TUTTI_TUNING is off"
                            : file.empty()                   ? "a file of constants is not there"
                                                             : file + " is not there";
    settings.options.tuning = "off";
    fmt::print("# {}: the library's default constants choose and predict\n", why);
  }
  std::optional<OutputFile> json;
  if (!settings.json.empty()) json.emplace(settings.json);
  std::vector<tune::Measured> all;
  for (const std::string& transport : settings.transports)
    for (const int ranks : settings.ranks) {
      const auto some = tune::measure(series(settings, transport, ranks, true), settings);
      all.insert(all.end(), some.begin(), some.end());
    }
  const std::vector<tune::Verdict> verdicts = tune::judge(all, *tuning);
  tune::print(stdout, verdicts);
  if (json) json->write(tune::to_json(verdicts, all));
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("tutti-tune", [&] {
    const auto command = tune::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    const auto& settings = std::get<tune::Settings>(command);
    const std::uint64_t machine = topology::hash(topology::discover());
    std::string file = settings.file;
    if (file.empty() && settings.options.tuning != "off") file = tuning::file_of(machine);
    if (settings.check)
      check_machine(settings, file);
    else
      tune_machine(settings, file, machine);
    return EXIT_SUCCESS;
  });
}
