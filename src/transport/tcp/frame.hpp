/// \file
/// What travels on a stream: a header of 16 bytes, then the payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/channel.hpp"

namespace tutti::transport::tcp {

/// Longest message. One way, shorter ones are slower (docs/experiments-devices.md); of longer ones a FIFO,
/// which may have to stage `channel_credits` of them a stream, would hold much.
inline constexpr std::size_t max_message = std::size_t{256} << 10;

/// In the byte order of the sender: a peer of the other one fails at `magic`.
struct Frame {
  static constexpr std::uint32_t expected_magic = 0x54555454;  // "TTUT" in memory
  std::uint32_t magic = expected_magic;
  Tag tag = 0;
  std::uint32_t bytes = 0;     ///< of the payload
  std::uint32_t sequence = 0;  ///< number of the message in its FIFO, modulo 2^32
};
static_assert(sizeof(Frame) == 16);

}  // namespace tutti::transport::tcp
