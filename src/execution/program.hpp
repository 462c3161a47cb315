/// \file
/// A schedule lowered for one rank and one size: byte offsets, message sizes and channel ends resolved. What
/// the executor runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/types.hpp>

#include "kernels/fold.hpp"
#include "transport/channel.hpp"

namespace tutti::execution {

/// Which buffer an offset counts from. The peers' ones hold for one-sided schedules only.
enum class Base : std::uint8_t { input, output, scratch, peer_input, peer_output };

struct Source {
  transport::Receiver* receiver = nullptr;  ///< nullptr: memory
  Base base = Base::input;
  Rank owner = -1;           ///< of peer bases
  Rank peer = -1;            ///< of messages
  std::uint64_t offset = 0;  ///< bytes, in iteration 0
  std::uint64_t segment_stride = 0;
};
struct Sink {
  transport::Sender* sender = nullptr;
  Base base = Base::input;
  Rank owner = -1;
  Rank peer = -1;  ///< -1 for a multicast
  std::uint64_t offset = 0;
  std::uint64_t segment_stride = 0;
};

/// One step. In iteration j it handles bytes [j * piece, (j + 1) * piece) of each of its `segments` chunks,
/// as far as they reach; it is skipped when none are left, except in iteration 0, where it runs on nothing.
/// What is `whole` runs in every iteration: a token orders each of them.
struct Instruction {
  enum class Kind : std::uint8_t {
    send,     ///< one memory source, messages only as sinks, one segment
    receive,  ///< one message source, one memory sink, one segment
    copy,     ///< one memory source of this rank, one memory sink of it, one segment
    fold,     ///< anything else
  };
  Kind kind = Kind::fold;
  bool completes = false;  ///< applies the program's divisor
  bool whole = false;      ///< `bytes` are one message in every iteration, not divided into pieces
  std::uint32_t first_source = 0, sources = 0;
  std::uint32_t first_sink = 0, sinks = 0;
  std::uint32_t segments = 1;
  std::uint64_t bytes = 0;  ///< of one chunk (`whole`: of the slice), over all iterations
  std::uint64_t streaming_sinks = 0;
  std::uint32_t salt = 0;  ///< mixed into the tag of its messages
};

/// Instructions that a lane runs `iterations` times before it goes on to its next part.
struct Part {
  std::vector<Instruction> instructions;
  std::uint64_t iterations = 0;
};

/// So much a lane handles in one go (`transport::bytes_in_one_go`) while it is at work on buffers of others,
/// whose owners may wait for it to leave them; and the longest message of a program that the executor has a
/// shorter way for.
inline constexpr std::uint64_t brief_message = 4096;

struct Program {
  std::uint64_t id = 0;  ///< of what `lower` made: another one each time
  std::vector<std::vector<Part>> lanes;
  std::vector<Source> sources;
  std::vector<Sink> sinks;
  std::uint64_t piece = 0;   ///< bytes of a chunk a message carries
  std::uint64_t stride = 0;  ///< bytes that input and output offsets advance an iteration
  std::uint64_t scratch_bytes = 0;
  std::uint64_t message_bytes = 0;  ///< the largest message
  std::size_t element_bytes = 1;
  kernels::Fold kernel = nullptr;
  std::int64_t divisor = 1;
  bool brief = false;    ///< every part has one iteration, and messages are short
  bool stable = false;   ///< sends may read the caller's buffers until they are flushed
  bool lends = false;    ///< such sends may be read by other processes
  bool flushes = false;  ///< a run ends when all it sent is flushed: over networks, and always if `stable`
  std::uint32_t max_operands = 1;

  /// Bytes of each of the instruction's chunks that it handles in an iteration.
  [[nodiscard]] std::size_t length(const Instruction& instruction, std::uint64_t iteration) const {
    if (instruction.whole) return instruction.bytes;
    if (iteration == 0) [[likely]]
      return std::min(instruction.bytes, stride);
    const std::uint64_t before = iteration * stride;
    return before >= instruction.bytes ? 0 : std::min(instruction.bytes - before, stride);
  }
};

}  // namespace tutti::execution
