#include "tuning/file.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include <tutti/error.hpp>

#include "base/read_file.hpp"
#include "topology/discover.hpp"
#include "topology/machine.hpp"

namespace tutti::tuning {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  const char* set = std::getenv(name);
  return set == nullptr ? "" : set;
}

fs::path folder() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "tutti" / "tuning";
  if (const std::string home = variable("HOME"); !home.empty())
    return fs::path(home) / ".cache" / "tutti" / "tuning";
  return {};
}

// A look at the machine takes longer. What tutti-tune did not finish has another ending.
bool some_machine_was_tuned() {
  std::error_code none;
  fs::directory_iterator at(folder(), none);
  for (const fs::directory_iterator end; !none && at != end; at.increment(none))
    if (at->path().extension() == ".json") return true;
  return false;
}

}  // namespace

std::unique_ptr<const Tuning> load(const std::string& file) {
  return from_json(read_file("tuning", file, remedy), '"' + file + '"');
}

std::string file_of(std::uint64_t machine) {
  return folder().empty() ? "" : folder() / fmt::format("{:016x}.json", machine);
}

std::string text_of(const std::string& setting) {
  if (setting == "off") return {};
  if (!setting.empty()) return to_json(*load(setting));
  if (!some_machine_was_tuned()) return {};
  try {
    const std::string file = file_of(topology::hash_of_parts(topology::discover()));
    if (std::error_code none; !fs::exists(file, none)) return {};
    return to_json(*load(file));
  } catch (const Error& error) {
    return to_json(Tuning(error.what()));
  }
}

}  // namespace tutti::tuning
