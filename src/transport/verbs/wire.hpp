/// \file
/// What two ranks tell each other: in front of every message, in an immediate, on the control connection. In
/// the byte order of the sender; a peer of another one fails at the first magic number.
#pragma once

#include <array>
#include <cstdint>

#include "transport/channel.hpp"

namespace tutti::transport::verbs {

inline constexpr int max_rails = 8;  ///< devices between two ranks
/// Slots of a FIFO: twice its credits, so that half of them can be owed and wait for a message that takes
/// them along.
inline constexpr int slots = 2 * channel_credits;

/// In front of the payload in the receiver's slot.
struct Header {
  static constexpr std::uint32_t expected_magic = 0x32525554;  // "TUR2" in memory
  std::uint32_t magic = expected_magic;
  Tag tag = 0;
  std::uint32_t bytes = 0;     ///< of the payload
  std::uint32_t sequence = 0;  ///< number of the message in its FIFO, modulo 2^32
  /// Credits that ride along: messages of each channel that the sender of this one has released, modulo 2^16.
  /// Only those of channels whose first rail is this message's count: credits of a channel never overtake.
  std::array<std::uint16_t, channels> released{};
};
static_assert(sizeof(Header) == 28);

/// A slot begins with this much, so that payloads start on a cache line; the header is at its end.
inline constexpr std::size_t header_room = 64;

/// The 32 bits that a completion carries.
struct Immediate {
  bool credit = false;     ///< `sequence` messages of `channel` have been released; else a part has arrived
  int channel = 0;         ///< 3 bits
  int part = 0;            ///< 4 bits: which part of a striped message
  std::uint8_t epoch = 0;  ///< of the connection: late completions of an earlier one are told apart
  std::uint16_t sequence = 0;  ///< modulo 2^16; the slot is its remainder by `slots`

  [[nodiscard]] constexpr std::uint32_t pack() const {
    return static_cast<std::uint32_t>(credit) << 31 | static_cast<std::uint32_t>(channel) << 28 |
           static_cast<std::uint32_t>(part) << 24 | static_cast<std::uint32_t>(epoch) << 16 | sequence;
  }
  static constexpr Immediate unpack(std::uint32_t bits) {
    return {(bits >> 31) != 0, static_cast<int>(bits >> 28 & 7), static_cast<int>(bits >> 24 & 15),
            static_cast<std::uint8_t>(bits >> 16), static_cast<std::uint16_t>(bits)};
  }
};

/// One end of a queue pair, as the other end needs it.
struct Address {
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  ///< its packet sequence number, random
  std::uint16_t lid = 0;
  std::uint16_t mtu = 0;           ///< bytes
  std::uint16_t port = 0;          ///< iWARP: of the connection manager
  std::uint16_t global_route = 0;  ///< 1: packets to it must carry its gid
  std::uint64_t token = 0;         ///< iWARP: what the connection manager wants to be shown; random
};

/// What goes over the control connection: a kind, then the struct of that kind.
enum class ControlKind : std::uint32_t { hello = 0x54555602, ready, want, offer, bye, rest, stay };

/// My queue pairs; receives are posted.
struct Hello {
  std::uint32_t rails = 0;
  std::uint32_t wanted = 0;  ///< bit c: channel c will send
  std::uint32_t epoch = 0;
  std::array<Address, max_rails> addresses;
};
/// I am ready to receive.
struct Ready {
  std::uint32_t unused = 0;
};
/// I want to send on this channel: where are its slots?
struct Want {
  std::uint32_t channel = 0;
};
/// The slots of a channel.
struct Offer {
  std::uint32_t channel = 0;
  std::uint32_t stride = 0;  ///< bytes from slot to slot
  std::uint64_t address = 0;
  std::array<std::uint32_t, max_rails> keys{};
};
/// I post nothing more on my queue pairs, and all that I posted is done. Answered by the same, and then both
/// close theirs, or by `stay`.
struct Rest {
  std::array<std::uint64_t, max_rails> signals{};  ///< sent on the queue pair of each rail since it was made
  std::array<std::uint16_t, channels> released{};  ///< messages of each channel released, modulo 2^16
};
/// Not now: my queue pairs are in use.
struct Stay {
  std::uint32_t unused = 0;
};
/// I leave. So many messages of each channel have arrived here.
struct Bye {
  std::array<std::uint64_t, channels> arrived{};
};

/// Of one who wants to reach a window's memory. Asked over the authenticated connection to the window's
/// server, like its answer.
struct WindowQuestion {
  Address address;
  std::uint64_t returned = 0;  ///< the word that the owner writes: how many of my notifications it has taken
  std::uint32_t returned_key = 0;
};
/// Of the memory's owner: its end, and what it gives.
struct WindowAnswer {
  Address address;
  std::uint64_t memory = 0;
  std::uint64_t counters = 0;
  std::uint32_t memory_key = 0;
  std::uint32_t counters_key = 0;
  std::uint32_t reads = 1;    ///< RDMA READs that its device serves at a time
  std::uint32_t signals = 0;  ///< notifications that may be under way as immediates
};

}  // namespace tutti::transport::verbs
