/// \file
/// What the command line of tutti-tune says.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <tutti/options.hpp>

namespace tutti::tune {

inline constexpr std::size_t smallest = 8;  ///< bytes that are measured

struct Settings {
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::string> transports{"shm"};
  std::size_t largest = std::size_t{64} << 20U;  ///< bytes, at least `smallest`
  int rounds = 9;
  bool check = false;  ///< measure what was chosen instead
  std::string file;    ///< "": this machine's, or none where `options.tuning` is off
  std::string json;    ///< of a check; "": none
  Options options;
};

/// The settings, or the exit status with which to end at once: 0 after --help, `usage_error` after a message
/// on stderr.
std::variant<Settings, int> parse_command_line(int argc, const char* const* argv);

}  // namespace tutti::tune
