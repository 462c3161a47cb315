/// \file
/// A collective algorithm as a value: who folds what into where, for every rank, with no pointer, byte or
/// transport in it. The verifier, the simulator, the executors and the printer all read this one value.
///
/// The form (chunks, lanes, FIFOs between them) follows MSCCLang (Cowan et al., ASPLOS 2023); that every step
/// is one fold of sources into sinks is ours: receive, copy, reduce, send and all their fusions are the same
/// step. Values and functions without a state: each value is of one thread at a time.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/types.hpp>

namespace tutti {

/// The operations that a schedule can implement.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  gather,
  scatter,
  all_to_all,
  barrier
};
inline constexpr int collective_count = 9;  ///< of them
/// The name as written in this header; "invalid" outside the enumeration. Never throws.
std::string_view name(Collective collective) noexcept;
/// The inverse of `name`. Throws Error(invalid_argument).
Collective parse_collective(std::string_view text);

/// The buffers of a rank. `scratch` belongs to the library.
enum class Space : std::uint8_t { input, output, scratch };

/// Where a value comes from or goes to: chunks of memory, or a message.
///
/// Messages between two ranks on one channel form a FIFO. A message of `count` 0 is a token: it orders, and
/// carries nothing.
struct Operand {
  enum class Kind : std::uint8_t { memory, message };  ///< which of the two
  Kind kind = Kind::memory;
  Space space = Space::input;  ///< memory only
  std::uint16_t channel = 0;   ///< message only: which FIFO between the two ranks
  Rank rank = -1;              ///< memory: its owner (-1: the rank that runs the step); message: the peer
  std::int32_t first = 0;      ///< memory only: index of the first chunk
  std::int32_t count = 1;      ///< chunks, consecutive
  bool operator==(const Operand&) const = default;
};

/// `count` chunks of a buffer of the rank that runs the step, or of rank `owner` (reached directly).
constexpr Operand in(int first, int count = 1, Rank owner = -1) {
  return {Operand::Kind::memory, Space::input, 0, owner, first, count};
}
constexpr Operand out(int first, int count = 1, Rank owner = -1) {
  return {Operand::Kind::memory, Space::output, 0, owner, first, count};
}
constexpr Operand scratch(int first, int count = 1, Rank owner = -1) {
  return {Operand::Kind::memory, Space::scratch, 0, owner, first, count};
}
/// A message of `count` chunks from or to `peer`. A channel that no Operand holds becomes 65535, which
/// `verify` refuses.
constexpr Operand message(Rank peer, int channel = 0, int count = 1) {
  const bool held = channel >= 0 && channel <= 65535;
  return {Operand::Kind::message,
          Space::input,
          static_cast<std::uint16_t>(held ? channel : 65535),
          peer,
          0,
          count};
}

/// One step: every sink receives the fold of all sources, folded from left to right. With one source it is a
/// copy. All operands hold the same number of chunks. A step runs when all its messages have arrived and all
/// its sinks have room.
struct Step {
  std::vector<Operand> sources{};
  std::vector<Operand> sinks{};
  bool complete =
      false;  ///< the fold is the finished reduction over all ranks (an average divides here, once)
  bool operator==(const Step&) const = default;
};

/// Steps that run in order. Lanes of one rank run concurrently and meet only at messages.
using Lane = std::vector<Step>;

/// An algorithm for one collective and one number of ranks.
///
/// Chunks: the input and output of all_reduce, reduce and broadcast hold `chunks` equal parts of the buffer.
/// For reduce_scatter, scatter and all_to_all the input holds one chunk per rank; for gather, all_gather and
/// all_to_all the output does. The other side holds one chunk. Data longer than a message is processed in
/// pieces: each lane runs its steps once for every piece of every chunk, independently of other lanes.
struct Schedule {
  std::string name{};
  Collective collective = Collective::all_reduce;
  Rank root = 0;
  int ranks = 0;
  int chunks = 0;   ///< chunks of the divisible buffer, see above
  int scratch = 0;  ///< scratch chunks a rank
  int credits = 1;  ///< messages that each FIFO must be able to hold for the schedule not to deadlock
  std::vector<std::vector<Lane>> lanes{};  ///< [rank][lane]
  bool operator==(const Schedule&) const = default;
};

/// What every executor can run; `verify` refuses schedules that need more.
inline constexpr int max_lanes = 8;     ///< lanes of a rank
inline constexpr int max_channels = 4;  ///< FIFOs from one rank to another
inline constexpr int max_credits = 4;   ///< `Schedule::credits`

/// Chunks in a rank's input and output for `schedule.collective`, by the rule above.
int input_chunks(const Schedule& schedule) noexcept;
int output_chunks(const Schedule& schedule) noexcept;

/// The text form: one line a step, e.g. `out[3], to 2/1 = in[3] + from 0/1`. Parses back to an equal
/// schedule, but for fields that operands of a kind do not use.
std::ostream& operator<<(std::ostream& stream, const Schedule& schedule);
std::string to_text(const Schedule& schedule);
/// Throws Error(invalid_schedule) with the line number. Input is bounded: no text makes it allocate more than
/// a constant factor of its own size.
[[nodiscard]] Schedule parse_schedule(std::string_view text);

class PartialBuild;

/// Writes a schedule in global view: call `at(rank, lane)` for every step, in any order of ranks; steps of
/// one lane keep the order in which they were begun.
class Builder {
 public:
  /// `chunks`, `scratch`: see Schedule; `lanes` of every rank, the most that are used. Throws
  /// Error(invalid_argument) for numbers that make no sense.
  Builder(std::string name, Collective collective, int ranks, int chunks, int lanes = 1, int scratch = 0);
  Builder& root(Rank rank);        ///< Schedule::root, if it is not 0
  Builder& credits(int messages);  ///< Schedule::credits, if it is not 1

  /// The step being written. Valid until the next call of `at`.
  class At {
   public:
    At& from(Rank peer, int channel = 0, int count = 1);  ///< folds in a message
    At& fold(Operand source);                             ///< folds in memory
    At& store(Operand sink);                              ///< writes memory
    At& to(Rank peer, int channel = 0, int count = 1);    ///< sends a message
    At& complete();                                       ///< marks the finished reduction

   private:
    friend class Builder;
    explicit At(Step& step) : step_(&step) {}
    Step* step_;
  };
  /// Throws Error(invalid_argument) for a rank or lane that there is not.
  At at(Rank rank, int lane = 0);
  /// The ranks to write steps for, where each rank's steps are written apart from the others': all; in the
  /// simulator only those it needs. `period`, if not 0, promises that rank r + period does what rank r does,
  /// with `period` added to all ranks, modulo their number; chunks may be others.
  [[nodiscard]] std::vector<Rank> ranks(int period = 0) const;
  /// Drops lanes in which no rank has a step.
  [[nodiscard]] Schedule build() &&;

 private:
  Schedule schedule_;
  PartialBuild* partial_;  ///< nullptr but in the simulator; src/collectives/partial_build.hpp
};

}  // namespace tutti
