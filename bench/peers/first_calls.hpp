/// \file
/// What the first call of each point costs beside the next ones. For processes that have made no call yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "point.hpp"

namespace bench {

/// One line of JSON a call, with the names of the library and of its settings. True when all results were
/// right.
///
/// A round makes each call once, so that later calls follow the same one as the first did. Printed at the
/// end: who prints wakes the launcher, which takes a processor from a rank.
inline bool first_calls(Backend& backend, const std::string& library, const std::string& variant,
                        const std::vector<Call>& calls, float* in, float* out) {
  constexpr std::size_t next = 5;  // their median is told
  std::vector<Point> points;
  for (const Call& call : calls)
    if (Point point(backend, call, in, out); point.supported()) points.push_back(std::move(point));
  std::vector<std::vector<double>> seconds(points.size());
  std::vector<std::uint8_t> right(points.size(), 1);
  for (std::size_t round = 0; round <= next; ++round)
    for (std::size_t i = 0; i < points.size(); ++i) {
      seconds[i].push_back(points[i].single());
      if (!points[i].last_was_right()) right[i] = 0;
    }
  for (std::size_t i = 0; i < points.size() && backend.rank() == 0; ++i) {
    const Call& call = points[i].call();
    const double first = seconds[i].front();
    std::nth_element(seconds[i].begin() + 1, seconds[i].begin() + 1 + next / 2, seconds[i].end());
    std::printf(
        R"({"library":"%s","variant":"%s","op":"%s","ranks":%d,"bytes":%zu,"first_us":%.4f,"next_us":%.4f,)"
        R"("correct":%s})"
        "\n",
        library.c_str(), variant.c_str(), name(call.operation).data(), call.size, call.bytes(), first * 1e6,
        seconds[i][1 + next / 2] * 1e6, right[i] != 0 ? "true" : "false");
  }
  return std::find(right.begin(), right.end(), 0) == right.end();
}

}  // namespace bench
