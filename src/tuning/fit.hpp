/// \file
/// The constants with which the simulator comes closest to what was measured.
#pragma once

#include <span>
#include <string>

#include "tuning/tuning.hpp"

namespace tutti::tuning {

struct Sample {
  Question question;
  std::string algorithm;
  double seconds = 0;  ///< a call, when calls follow each other
};

/// Least squares of the logarithms, by Gauss and Newton: the parts of the critical path (simulation::Spent)
/// are the derivatives. What the samples do not tell stays near `start`.
simulation::HostCosts fit(std::span<const Sample> samples, const simulation::HostCosts& start);

/// A point a size, and the factors that remain, each the median of its own and its neighbours' sizes: what
/// disturbed one measurement decides nothing. Constants are fitted to collectives whose calls do not overlap
/// when they follow each other: not to reduce, gather and scatter. `samples`: not empty, of one scene.
Curve fit_curve(std::span<const Sample> samples);

}  // namespace tutti::tuning
