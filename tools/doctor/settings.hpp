/// \file
/// What the command line of tutti-doctor says.
#pragma once

#include <string>
#include <variant>

#include <tutti/options.hpp>

namespace tutti::doctor {

struct Settings {
  int ranks = 0;       ///< ranks to start here; 0: the launcher did, or there is none
  bool pairs = true;   ///< measure pairs of ranks, where there are several
  std::string json{};  ///< file name, "-" for stdout, "" for none
  Options options{};
};

/// The settings, or the exit status with which to end at once: 0 after --help, `usage_error` after a message
/// on stderr.
std::variant<Settings, int> parse_command_line(int argc, const char* const* argv);

}  // namespace tutti::doctor
