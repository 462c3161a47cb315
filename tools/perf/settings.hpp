/// \file
/// What the command line of tutti-perf says.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <tutti/options.hpp>

#include "perf/benchmark.hpp"
#include "perf/reduction.hpp"

namespace tutti::perf {

struct Settings {
  Benchmark benchmark{};
  std::vector<std::size_t> sizes;  ///< bytes, ascending
  std::vector<DataType> types;
  std::vector<NamedReduction> reductions;
  int root = 0;        ///< all_roots: every rank in turn
  int iterations = 0;  ///< calls in a batch; 0: as many as take about 5 ms
  int batches = 5;
  int warmups = 21;
  int checks = 1;  ///< checked calls before and after the measured ones, each with its own inputs; 0: none
  bool registered = false;
  bool rewrite = false;
  bool explain = false;
  int ranks = 0;  ///< ranks to start here; 0: the launcher did
  bool threads = false;
  bool pin = true;
  std::string json;  ///< file name, "" for none
  Options options;
};

inline constexpr int all_roots = -1;

/// Throws Error(invalid_argument) where so many ranks are too few for what is asked.
void check_ranks(const Settings& settings, int ranks);

/// The settings, or the exit status with which to end at once: 0 after --help, `usage_error` after a message
/// on stderr.
std::variant<Settings, int> parse_command_line(int argc, const char* const* argv);

}  // namespace tutti::perf
