/// \file
/// The fastest candidates' times as a drawing.
#pragma once

#include <string>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::sim {

/// The fastest of one size on one number of ranks.
struct Point {
  int ranks = 1;
  double bytes = 0;
  double seconds = 0;
  bool estimated = false;
};

/// A whole SVG document with logarithmic axes: time over size, a line for every number of ranks; of one size,
/// time over ranks. `points` is not empty; they are joined in their order, but for those of no time, or of no
/// bytes among sizes, which such axes do not have. Estimates are marked as in tables.
std::string plot(Collective collective, std::vector<Point> points);

}  // namespace tutti::sim
