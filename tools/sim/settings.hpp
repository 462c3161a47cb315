/// \file
/// What the command line of tutti-sim says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::sim {

/// The largest size that is predicted: a simulation passes every message on.
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 36U;

struct Settings {
  Collective collective = Collective::all_reduce;
  std::vector<std::size_t> sizes;  ///< bytes
  std::vector<int> nodes{1};
  int ranks_per_node = 0;  ///< 0: one a GPU
  std::string topology = "dgx-h100";
  std::string algorithm;   ///< "": all that come into question
  std::size_t piece = 0;   ///< 0: several
  double effort = 1;       ///< times what a question may take
  int links = 0;           ///< so many of the busiest links are shown
  std::string json, plot;  ///< file names, "" for none
};

/// The settings, or the exit status with which to end at once: 0 after --help, `usage_error` after a message
/// on stderr.
std::variant<Settings, int> parse_command_line(int argc, const char* const* argv);

}  // namespace tutti::sim
