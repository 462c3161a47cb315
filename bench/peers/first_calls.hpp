/// \file
/// What the first call of each point costs beside the next ones. For processes that have made no call yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "point.hpp"

namespace bench {

/// A call with buffers of its own.
struct OwnedPoint {
  OwnedPoint(Backend& backend, const Call& call, const Kind& kind)
      : in(call.bytes(), kind),
        out(call.bytes(), kind),
        attached_in(backend.attach(in.floats(), in.bytes())),
        attached_out(backend.attach(out.floats(), out.bytes())),
        point(backend, call, in.floats(), out.floats(), call.size) {}
  Memory in, out;
  std::shared_ptr<void> attached_in, attached_out;
  Point point;
  std::vector<double> seconds;
  bool right = true;
};

/// One line of JSON a call, with the names of the library and of its settings. True when all results were
/// right.
///
/// Each call's buffers are made before its first call, so that those of long calls sweep no caches before
/// short ones. A round makes each call once, so that later calls follow the same one as the first did.
/// Printed at the end: who prints wakes the launcher, which takes a processor from a rank.
inline bool first_calls(Backend& backend, const Options& options, const std::vector<Call>& calls) {
  constexpr std::size_t next = 5;  // their median is told
  std::vector<std::unique_ptr<OwnedPoint>> points;
  const auto make_call = [](OwnedPoint& p) {
    p.seconds.push_back(p.point.single());
    p.right = p.point.last_was_right() && p.right;
  };
  for (const Call& call : calls) {
    auto owned = std::make_unique<OwnedPoint>(backend, call, options.kind);
    if (!owned->point.supported()) continue;
    make_call(*owned);
    points.push_back(std::move(owned));
  }
  for (std::size_t round = 0; round < next; ++round)
    for (const auto& owned : points) make_call(*owned);
  bool right = true;
  for (const auto& owned : points) {
    right = right && owned->right;
    if (backend.rank() != 0) continue;
    const Call& call = owned->point.call();
    auto& seconds = owned->seconds;
    const double first = seconds.front();
    std::nth_element(seconds.begin() + 1, seconds.begin() + 1 + next / 2, seconds.end());
    std::printf(
        R"({"library":"%s","variant":"%s","op":"%s","ranks":%d,"bytes":%zu,"first_us":%.4f,"next_us":%.4f,)"
        R"("correct":%s})"
        "\n",
        options.library.c_str(), options.variant.c_str(), name(call.operation).data(), call.size,
        call.bytes(), first * 1e6, seconds[1 + next / 2] * 1e6, owned->right ? "true" : "false");
  }
  return right;
}

}  // namespace bench
