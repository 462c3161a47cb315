#include "tuning/file.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <tutti/error.hpp>

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

}  // namespace

std::string file_of(std::uint64_t machine) {
  return folder().empty() ? "" : folder() / fmt::format("{:016x}.json", machine);
}

std::string text_of(const std::string& setting) {
  if (setting == "off") return {};
  std::string file = setting;
  if (file.empty()) {
    std::error_code none;
    if (folder().empty() || fs::is_empty(folder(), none) || none) return {};
    file = file_of(topology::hash(topology::discover()));
    if (!fs::exists(file, none)) return {};
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  if (text.view().empty())  // a directory opens, too
    throw Error(ErrorCode::invalid_argument,
                "cannot read the tuning " + file + "; tutti-tune writes it, TUTTI_TUNING=off does without");
  return text.str();
}

}  // namespace tutti::tuning
