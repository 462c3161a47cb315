/// \file
/// Schedule + rank + sizes -> Program.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include <tutti/schedule.hpp>

#include "execution/overview.hpp"
#include "execution/program.hpp"

namespace tutti::execution {

/// The bytes behind a schedule's chunks.
struct Shape {
  /// The schedule may cut the buffer where it likes (all_reduce, reduce, broadcast): `total` bytes. Otherwise
  /// every chunk has its place in the caller's buffer, one entry a chunk below.
  bool divisible = false;
  std::size_t total = 0;
  struct Extent {
    std::size_t offset = 0, bytes = 0;
  };
  std::vector<Extent> input, output;
  /// Extents differ in size, and peers' ones are not known: of a peer's memory a one-sided schedule gets the
  /// block that this rank may touch.
  bool uneven = false;
  bool private_sizes = false;  ///< peers do not know them (all_to_all_v): messages carry them in their tags
};

/// So many blocks of so many bytes, one behind the other.
std::vector<Shape::Extent> equal_blocks(std::size_t bytes, int count);

/// Bytes of each chunk where so many share `total`; the last ones are shorter, or empty.
std::size_t chunk_bytes(std::size_t total, std::size_t chunks, std::size_t element_bytes);

/// Where a schedule's messages go.
class Channels {
 public:
  virtual ~Channels() = default;
  virtual transport::Sender& sender(Rank peer, int channel) = 0;
  virtual transport::Receiver& receiver(Rank peer, int channel) = 0;
  /// Of a schedule in which no rank both sends and receives, and all messages are of that channel.
  virtual transport::Sender& stream_sender(Rank peer, int channel) { return sender(peer, channel); }
  virtual transport::Receiver& stream_receiver(Rank peer, int channel) { return receiver(peer, channel); }
  /// Whether a message to all others can be one.
  [[nodiscard]] virtual bool multicasts() const { return false; }
  /// nullptr when there is no such thing. `channel`: of a schedule, or transport::lone_channel.
  virtual transport::Sender* multicast_sender(int /*channel*/) { return nullptr; }
  virtual transport::Receiver* multicast_receiver(Rank /*from*/, int /*channel*/) { return nullptr; }
};

/// Of LowerSettings::max_message: messages may be of any length.
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// Blocks of more bytes than the first, which no other message of shared memory has, and less than the second
/// are one message each, where `LowerSettings::whole_blocks` says so. Longer ones are as fast in pieces, and
/// may go past the caches (docs/experiments-calls.md).
inline constexpr std::size_t whole_block_over = std::size_t{64} << 10U,
                             whole_block_end = std::size_t{2} << 20U;

struct LowerSettings {
  std::size_t piece = 0;        ///< wanted bytes of a chunk a message
  std::size_t max_message = 0;  ///< bytes, or `unlimited`
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool stable = false;  ///< see Program
  std::size_t stream_from =
      static_cast<std::size_t>(-1);  ///< writes results past the caches when the data has this many bytes
  std::size_t stream_received_from = static_cast<std::size_t>(-1);  ///< the same for steps that only receive
  /// Steps of at most so many bytes that send a block and copy it as well become a send and a copy: what is
  /// short leaves sooner so, and need not be read only once. 0: none.
  /// On two ranks up to a third faster, and equal for longer ones: docs/experiments-calls.md.
  std::size_t sends_apart = 16384;
  /// Every step is one event, as the verifier takes it: none is taken apart, and a send to several begins
  /// when there is room for all of it. Else a peer that has its message may answer, and the answer replace
  /// what the others are still to get. The library's own schedules are proved in the other form, too.
  bool whole_steps = false;
  bool in_place = false;  ///< steps that copy a place to itself are dropped
  /// A schedule of steps on everybody's memory, and tokens: each step goes through all its pieces before the
  /// next one begins, for a token says that all of a step is done.
  bool one_sided = false;
  /// Where sizes are private: blocks of the lengths above may be left in their sender's memory, and wait for
  /// no other. Not in place. On all ranks or none.
  bool whole_blocks = false;
};

/// `overview` is the schedule's. Throws Error(invalid_schedule) when the schedule cannot carry this shape (a
/// step of an uneven shape that names no memory). `room`: a program that is over, whose memory is used.
Program lower(const Schedule& schedule, const Overview& overview, Rank rank, const Shape& shape,
              const LowerSettings& settings, Channels& channels, Program room = {});

}  // namespace tutti::execution
