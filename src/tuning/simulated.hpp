/// \file
/// A question put to the simulator.
#pragma once

#include "collectives/algorithms.hpp"
#include "simulation/simulate.hpp"
#include "tuning/tuning.hpp"

namespace tutti::tuning {

/// Of calls in a row: `Result::steady` is what one takes.
simulation::Result simulated(const Question& question, const Algorithm& algorithm,
                             const simulation::HostCosts& costs);

}  // namespace tutti::tuning
