/// tutti-tune: measures this machine's constants, from which algorithms are then chosen. `tutti-tune --help`
/// says how.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "output_file.hpp"
#include "own_ranks.hpp"
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

// Every fourth power of two, and the largest.
std::vector<std::size_t> sizes(std::size_t largest) {
  constexpr std::size_t factor = 4;
  std::vector<std::size_t> all;
  const std::size_t last = largest / tune::smallest * tune::smallest;
  for (std::size_t bytes = tune::smallest; bytes < last; bytes *= factor) all.push_back(bytes);
  all.push_back(last);
  return all;
}

tune::Series series(const tune::Settings& settings, const std::string& transport, int ranks, bool chosen) {
  return {.scene = {.transport = transport, .ranks = ranks, .cpus = own_cpus()},
          .collectives = {collectives.begin(), collectives.end()},
          .sizes = sizes(settings.largest),
          .chosen = chosen};
}

void print(std::FILE* to, const tuning::Curve& curve) {
  constexpr double nano = 1e9;
  fmt::print(to, "# {} {} ranks\n{:>14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", curve.transport, curve.ranks,
             "bytes", "call ns", "alpha ns", "message", "step ns", "copy GB/s", "fold GB/s");
  for (const auto& [bytes, c, factors] : curve.points)
    fmt::print(to, "{:>14} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.2f} {:>9.2f}\n", bytes, c.call * nano,
               c.alpha * nano, c.overhead * nano, c.step * nano, 1 / (c.copy * nano), 1 / (c.fold * nano));
  std::fflush(to);
}

// Communicators that are just made see the constants of before, or all of the new ones.
OutputFile file_of_constants(const std::string& file) {
  namespace fs = std::filesystem;
  if (file.empty())
    throw Error(ErrorCode::invalid_argument,
                "neither XDG_CACHE_HOME nor HOME says where communicators look; name a file with --file");
  std::error_code none;  // OutputFile says that it did not work
  if (const auto parent = fs::path(file).parent_path(); !parent.empty()) fs::create_directories(parent, none);
  if (fs::exists(file, none) && !fs::is_regular_file(file, none)) cannot_write(file);
  return OutputFile(file);
}

// What the file holds of this machine; nullptr: nothing, or it goes away, and `why` says why.
std::unique_ptr<const tuning::Tuning> measured_before(const std::string& file, std::uint64_t machine,
                                                      std::string& why) {
  if (std::error_code none; !std::filesystem::exists(file, none)) return nullptr;
  try {
    if (auto before = tuning::load(file); before->machine() == machine) return before;
    why = "it was measured on another machine";
  } catch (const Error& error) {
    why = error.what();
  }
  return nullptr;
}

// Until it goes out of scope, others that are about to write to the same folder wait, but not for ever: who
// has it may have been stopped. Where the file system has no locks, nobody does.
FileDescriptor lock_folder_of(const std::string& file) {
  constexpr std::chrono::minutes patience{1};
  constexpr std::chrono::milliseconds pause{10};
  std::error_code none;
  const auto folder = std::filesystem::absolute(behind_links(file), none).parent_path();
  FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Deadline deadline(patience);
  while (opened && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (deadline.passed()) {
      fmt::print("# another process has had {} locked for a minute; what it writes there may be lost\n",
                 folder.string());
      break;
    }
    std::this_thread::sleep_for(pause);
  }
  return opened;
}

bool has(const std::vector<tuning::Curve>& curves, const std::string& transport, int ranks) {
  return std::ranges::any_of(curves, [&](const tuning::Curve& curve) {
    return curve.transport == transport && curve.ranks == ranks;
  });
}

// Other transports and numbers of ranks stay as they were.
std::unique_ptr<tuning::Tuning> with_those_before(std::uint64_t machine,
                                                  const std::vector<tuning::Curve>& measured,
                                                  const tuning::Tuning* before) {
  std::vector<tuning::Curve> curves = measured;
  if (before != nullptr)
    for (const tuning::Curve& curve : before->curves())
      if (!has(measured, curve.transport, curve.ranks)) curves.push_back(curve);
  std::ranges::sort(curves, {},
                    [](const tuning::Curve& curve) { return std::tie(curve.transport, curve.ranks); });
  auto tuning = std::make_unique<tuning::Tuning>(machine, std::move(curves));
  if (before != nullptr)
    for (const auto& [scene, choices] : before->kept())
      if (!has(measured, scene.transport, scene.ranks)) tuning->keep(scene, choices);
  return tuning;
}

// What cannot work fails before all else is measured for nothing.
void try_out(const tune::Settings& settings) {
  const int most = *std::ranges::max_element(settings.ranks);
  for (const std::string& transport : settings.transports) tune::try_out(transport, most, settings);
}

void tune_machine(tune::Settings settings, const std::string& file, std::uint64_t machine) {
  OutputFile constants = file_of_constants(file);
  std::string why;
  measured_before(file, machine, why);
  // In time for whoever wants to keep that.
  if (!why.empty()) fmt::print("# what {} held goes away: {}\n", file, why);
  settings.options.tuning = "off";  // every algorithm is forced
  try_out(settings);
  std::vector<tuning::Curve> curves;
  for (const std::string& transport : settings.transports)
    for (const int ranks : settings.ranks) {
      std::vector<tuning::Sample> samples;
      for (const auto& one : tune::measure(series(settings, transport, ranks, false), settings))
        samples.push_back(one.sample);
      curves.push_back(tuning::fit_curve(samples));
      print(stdout, curves.back());
    }
  // Anew: another tutti-tune may have written meanwhile what it measured, or be about to.
  const FileDescriptor lock = lock_folder_of(file);
  const auto before = measured_before(file, machine, why);
  const auto tuning = with_those_before(machine, curves, before.get());
  for (const tuning::Curve& curve : curves) {
    const tuning::Scene scene{.transport = curve.transport, .ranks = curve.ranks, .cpus = curve.cpus};
    tuning->keep(scene, tuning::decide_all(*tuning, scene, settings.largest));
  }
  constants.write(tuning::to_json(*tuning));
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
    fmt::print(words_beside(settings.json), "# {}: the library's default constants choose and predict\n",
               why);
  }
  std::optional<OutputFile> json;
  if (!settings.json.empty()) json.emplace(settings.json);
  try_out(settings);
  std::vector<tune::Measured> all;
  for (const std::string& transport : settings.transports)
    for (const int ranks : settings.ranks) {
      const auto some = tune::measure(series(settings, transport, ranks, true), settings);
      all.insert(all.end(), some.begin(), some.end());
    }
  const std::vector<tune::Verdict> verdicts = tune::judge(all, *tuning);
  tune::print(words_beside(settings.json), verdicts);
  if (json) json->write(tune::to_json(verdicts, all));
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("tutti-tune", [&] {
    const auto command = tune::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    const auto& settings = std::get<tune::Settings>(command);
    const std::uint64_t machine = topology::hash_of_parts(topology::discover());
    std::string file = settings.file;
    if (file.empty() && settings.options.tuning != "off") file = tuning::file_of(machine);
    if (settings.check)
      check_machine(settings, file);
    else
      tune_machine(settings, file, machine);
    return EXIT_SUCCESS;
  });
}
