/// \file
/// A long buffer in many pieces, of which a few are simulated: once a pipeline is full, as many rounds more
/// take as much time more. It need not be full everywhere: a chain of ten thousand ranks takes long until the
/// first piece is at its end, but with eight pieces more it is done later by eight times what its slowest
/// rank takes. So what is compared is whole simulations that differ in their rounds only.
#pragma once

#include <optional>
#include <vector>

#include "simulation/cast.hpp"
#include "simulation/network.hpp"
#include "simulation/quotient.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

/// The result of one call, from three simulations of some of its rounds; given up as Engine::run is. Nothing
/// where there are too few rounds for that, or where as many more did not take as long both times, or took
/// less than a link needs: then all must be simulated, with what is left of `limits` by then. Counts are
/// exact; ranks that are done before the last may be told to be done earlier than they are, since with few
/// rounds nothing holds them up yet. `actors` are as before afterwards.
std::optional<Result> by_some_rounds(const Network& network, const Quotient& quotient,
                                     std::vector<Actor>& actors, Limits& limits);

/// Steps of all ranks, in all their rounds.
std::uint64_t steps_in_all(const std::vector<Actor>& actors);

}  // namespace tutti::simulation
