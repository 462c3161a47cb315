/// \file
/// Device programs that come from calls, not from schedules.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <tutti/call.hpp>

#include "gpu/device/arena.hpp"

namespace tutti::gpu {

/// Sends and receives of a group, as the launches take them that follow each other: all in one, or, where
/// they are more than its buffers, of each pair of ranks and direction so many that all ranks would take as
/// many. So none waits for one that its other end has in a later launch, whether that end has several or one.
std::vector<std::vector<Call>> message_launches(std::span<const Call> calls, int ranks);

/// Sends and receives of `rank`, side by side: those to one peer, and those from one, are a lane, in the
/// order of the calls. Buffer i of the launch is that of call i. A message to oneself is a copy from a send's
/// buffer to that of the receive of the same place among its kind; both must be there and of one size.
/// `slices`: blocks a lane, the same on all ranks.
std::vector<std::byte> message_program(std::span<const Call> calls, Rank rank, int slices,
                                       const device::Arena& arena);

/// An all_to_all_v among `size` ranks whose counts are in the launch. `slices`: blocks a lane, of which there
/// are two: one sends and one receives.
std::vector<std::byte> counted_exchange_program(Rank rank, int size, int slices, const device::Arena& arena);

}  // namespace tutti::gpu
