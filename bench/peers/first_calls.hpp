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
  std::vector<double> next, swept;  ///< seconds
  double first = 0;
  bool right = true;
};

inline double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// One line of JSON a call, with the names of the library and of its settings. True when all results were
/// right.
///
/// Each call's buffers are made before its first call, so that those of long calls sweep no caches before
/// short ones. A round makes each call once, so that later calls follow the same one as the first did. In
/// further rounds other buffers are made and written before each, which sweeps caches as making its own did:
/// what a first call is dearer by than those is not the memory's.
/// Printed at the end: who prints wakes the launcher, which takes a processor from a rank.
inline bool first_calls(Backend& backend, const Options& options, const std::vector<Call>& calls) {
  constexpr int rounds = 5;  // their median is told
  std::vector<std::unique_ptr<OwnedPoint>> points;
  const auto make_call = [](OwnedPoint& p) {
    const double seconds = p.point.single();
    p.right = p.point.last_was_right() && p.right;
    return seconds;
  };
  for (const Call& call : calls) {
    auto owned = std::make_unique<OwnedPoint>(backend, call, options.kind);
    if (!owned->point.supported()) continue;
    owned->first = make_call(*owned);
    points.push_back(std::move(owned));
  }
  for (int round = 0; round < rounds; ++round)
    for (const auto& owned : points) owned->next.push_back(make_call(*owned));
  for (int round = 0; round < rounds; ++round)
    for (const auto& owned : points) {
      const std::size_t bytes = owned->point.call().bytes();
      const Memory in(bytes, options.kind), out(bytes, options.kind);
      owned->swept.push_back(make_call(*owned));
    }
  bool right = true;
  for (const auto& owned : points) {
    right = right && owned->right;
    if (backend.rank() != 0) continue;
    const Call& call = owned->point.call();
    std::printf(
        R"({"library":"%s","variant":"%s","op":"%s","ranks":%d,"bytes":%zu,"first_us":%.4f,"next_us":%.4f,)"
        R"("swept_us":%.4f,"correct":%s})"
        "\n",
        options.library.c_str(), options.variant.c_str(), name(call.operation).data(), call.size,
        call.bytes(), owned->first * 1e6, median(owned->next) * 1e6, median(owned->swept) * 1e6,
        owned->right ? "true" : "false");
  }
  return right;
}

}  // namespace bench
