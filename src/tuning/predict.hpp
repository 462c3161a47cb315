/// \file
/// Tuned constants and the simulator: what each algorithm takes.
#pragma once

#include <cstdint>

#include "collectives/algorithms.hpp"
#include "simulation/candidates.hpp"
#include "simulation/simulate.hpp"
#include "tuning/tuning.hpp"

namespace tutti::tuning {

/// The scene's network, where a call costs `costs`.
simulation::Network network_of(const Scene& scene, const Costs& costs);
/// Bytes of the largest message that all ranks of the scene can send.
std::size_t max_message(const Scene& scene);

/// Of `calls` in a row, 0: as many as it takes until they run into each other as far as credits let them.
/// `Result::steady` is what one takes. Factors are not in it.
simulation::Result simulate(const Question& question, const Algorithm& algorithm, const Costs& costs,
                            int calls = 0);

struct Prediction {
  double seconds = 0;        ///< a call, when calls follow each other; factors included
  std::uint64_t events = 0;  ///< steps of the simulation
};
/// By `simulate`; of one call where ranks share processors, since it counts what turns they take then.
Prediction predict(const Question& question, const Algorithm& algorithm, const Costs& costs, int calls = 0);

/// The question to simulation::rank_candidates on network_of the scene: of one call by itself, with all that
/// the choice was made by.
simulation::Question candidates_for(const Question& question, const Costs& costs);

}  // namespace tutti::tuning
