#include "doctor/root.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/names_in.hpp"

namespace tutti::doctor {

namespace fs = std::filesystem;

std::optional<std::string> Root::text(const std::string& path) const {
  std::ifstream file(prefix_ + path);
  if (!file) return std::nullopt;
  std::string contents;
  std::array<char, 4096> some{};
  do {
    file.read(some.data(), some.size());
    contents.append(some.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  if (file.bad()) return std::nullopt;  // the speed of an interface that has none, for one
  contents.erase(contents.find_last_not_of(" \t\r\n") + 1);
  return contents;
}

std::optional<long long> Root::number(const std::string& path) const {
  const auto contents = text(path);
  long long value = 0;
  if (!contents) return std::nullopt;
  const auto read = std::from_chars(contents->data(), contents->data() + contents->size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::string> Root::field(const std::string& path, const std::string& key) const {
  std::istringstream lines(text(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    const auto start = line.find_first_not_of(" \t", key.size() + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return std::nullopt;
}

std::vector<std::uint8_t> Root::bytes(const std::string& path, std::size_t most) const {
  std::ifstream file(prefix_ + path, std::ios::binary);
  std::vector<char> read(most);
  file.read(read.data(), static_cast<std::streamsize>(most));
  return {read.begin(), read.begin() + file.gcount()};
}

std::size_t Root::size(const std::string& path) const {
  std::error_code none;
  const auto size = fs::file_size(prefix_ + path, none);
  return none ? 0 : size;
}

std::vector<std::string> Root::names(const std::string& directory) const {
  return names_in(prefix_ + directory);
}

bool Root::exists(const std::string& path) const {
  std::error_code none;
  return fs::exists(prefix_ + path, none);
}

bool Root::readable_and_writable(const std::string& path) const {
  return ::access((prefix_ + path).c_str(), R_OK | W_OK) == 0;
}

int Root::gpus(const std::string& vendor) const {
  const std::string devices = "/sys/bus/pci/devices/";
  return static_cast<int>(std::ranges::count_if(names(devices), [&](const std::string& device) {
    const std::string kind = text(devices + device + "/class").value_or("");
    const bool computes = kind.starts_with("0x03") || kind.starts_with("0x12");  // the second: MI300
    return computes && text(devices + device + "/vendor") == vendor;
  }));
}

bool Root::capable(int capability) const {
  const auto mask = field("/proc/self/status", "CapEff");
  std::uint64_t bits = 0;
  if (!mask || std::from_chars(mask->data(), mask->data() + mask->size(), bits, 16).ec != std::errc())
    return false;
  return (bits >> capability & 1) != 0;
}

std::string bracketed(const std::string& choices) {
  const auto open = choices.find('['), close = choices.find(']');
  return open == std::string::npos || close < open ? "" : choices.substr(open + 1, close - open - 1);
}

}  // namespace tutti::doctor
