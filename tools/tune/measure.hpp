/// \file
/// How long calls take by each algorithm, on ranks that are started for it.
#pragma once

#include <string>
#include <vector>

#include "tune/settings.hpp"
#include "tuning/fit.hpp"

namespace tutti::tune {

/// What to measure: every question by every algorithm that sends messages and, where `chosen` is set, as the
/// library chooses (in the results: "").
struct Series {
  tuning::Scene scene{};
  std::vector<Collective> collectives;
  std::vector<std::size_t> sizes;  ///< bytes
  bool chosen = false;
};

/// Of times of the same thing: the lower quartile. What disturbs a machine, another place of its virtual
/// processors among them, only makes it slower, and often half of the times.
double undisturbed(std::vector<double> times);

/// One way of one question.
struct Measured {
  tuning::Sample sample;       ///< `undisturbed` of the rounds
  std::vector<double> rounds;  ///< seconds of a call in each; in one round all ways took turns
};

/// Makes a communicator of so many ranks, as `measure` does, and lets it go. Throws Error when a rank fails.
void try_out(const std::string& transport, int ranks, const Settings& settings);

/// Starts the ranks as processes and ends them. Throws Error when a rank fails.
std::vector<Measured> measure(const Series& series, const Settings& settings);

}  // namespace tutti::tune
