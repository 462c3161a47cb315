/// \file
/// The part of a proof that needs no run: whether a schedule is well formed.
#pragma once

#include <optional>

#include <tutti/verify.hpp>

#include "collectives/verify/memory.hpp"

namespace tutti::proof {

/// The name of a FIFO: its two ranks and its channel.
constexpr std::uint64_t fifo_key(Rank from, Rank to, int channel) {
  return ((static_cast<std::uint64_t>(from) << 31U | static_cast<std::uint64_t>(to)) << 2U) |
         static_cast<std::uint64_t>(channel);
}
static_assert(max_channels <= 4);

/// Header, numbers of ranks and lanes, and a size that can be proved in bounded time and memory. Safe for any
/// value of any field; the other functions of this folder rely on it.
std::optional<Fault> check_header(const Schedule& schedule, const VerifyOptions& options);

/// Every operand in range, every step's operands of equal count and without partial overlap (as fold kernels
/// ask), every FIFO written by one lane and read by one. Needs a sound header.
std::optional<Fault> check_steps(const Schedule& schedule, const Memory& memory);

}  // namespace tutti::proof
