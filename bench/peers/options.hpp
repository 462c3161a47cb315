/// \file
/// The command line that all programs share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../../tools/whole_numbers.hpp"
#include "memory.hpp"

namespace bench {

struct Options {
  std::string library, variant = "default";  ///< repeated in the output
  std::vector<std::string> points;           ///< "operation:bytes"
  std::vector<std::string> modes{"unchanged", "rewritten"};
  Kind kind;               ///< of buffers
  bool first = false;      ///< instead: the first call of each point, and the next ones
  std::vector<int> cores;  ///< rank r is bound to cores[r % size]; none: not bound
  double seconds = 0.1;    ///< measured a point
};

inline void add_options(CLI::App& app, Options& options) {
  app.add_option("--library", options.library, "Name in the output")->capture_default_str();
  app.add_option("--variant", options.variant, "Name of the settings in the output")->capture_default_str();
  app.add_option("--points", options.points, "What to measure: operation:bytes,...")
      ->delimiter(',')
      ->required();
  app.add_option("--modes", options.modes, "Inputs between calls")
      ->delimiter(',')
      ->check(CLI::IsMember({"unchanged", "rewritten"}))
      ->capture_default_str();
  const std::map<std::string, Pages> pages{
      {"small", Pages::small}, {"huge", Pages::huge}, {"unadvised", Pages::unadvised}};
  app.add_option("--pages", options.kind.pages,
                 "What buffers consist of: 4 KiB, 2 MiB or what the system gives")
      ->transform(CLI::CheckedTransformer(pages))
      ->capture_default_str();
  app.add_option("--begin", options.kind.begin,
                 "Bytes behind a page's begin where buffers begin, a multiple of 4; 16 is what malloc gives")
      ->check(CLI::Range(0, 4092))
      ->check(CLI::Validator(
          [](std::string& text) {
            return std::strtoul(text.c_str(), nullptr, 0) % 4 == 0 ? std::string() : "no multiple of 4";
          },
          ""))
      ->capture_default_str();
  app.add_flag(
      "--first", options.first,
      "Instead: the first call of each point, and medians of the next five and of five with swept caches");
  app.add_option("--cores", options.cores, "Bind rank r to the core whose turn it is")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", options.seconds, "Time measured a point")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace bench
