/// \file
/// What travels on a stream: a header, then the payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/channel.hpp"

namespace tutti::transport::tcp {

/// Longest message. Shorter ones are slower (docs/experiments-devices.md); of longer ones a FIFO, which may
/// have to stage `channel_credits` of them a stream, would hold much.
inline constexpr std::size_t max_message = std::size_t{512} << 10;

/// In the byte order of the sender: a peer of the other one fails at `magic`.
struct Frame {
  static constexpr std::uint32_t expected_magic = 0x32545454;  // "TTT2" in memory
  std::uint32_t magic = expected_magic;
  Tag tag = 0;
  std::uint32_t bytes = 0;     ///< of the payload
  std::uint32_t sequence = 0;  ///< number of the message in its FIFO, modulo 2^32
  std::array<std::uint32_t, 12> unused{};
};
static_assert(sizeof(Frame) == 64);

/// What a Frame says.
inline constexpr std::size_t frame_content = offsetof(Frame, unused);

/// Up to here messages are short: a few may share a segment, and their headers have nothing unused. The
/// payload of a longer one begins 64 bytes behind where kernels begin to copy, which mostly is a page's
/// begin: 1 to 31 bytes behind where the program's memory begins in its page, copies take many times as long
/// (docs/experiments-devices.md).
inline constexpr std::size_t short_message = 256;

/// Bytes of a Frame that go ahead of a payload of `bytes`.
constexpr std::size_t header_of(std::size_t bytes) {
  return bytes > short_message ? sizeof(Frame) : frame_content;
}

}  // namespace tutti::transport::tcp
