/// \file
/// Runs a Program: lanes are polled state machines, so a lane that waits never blocks another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "execution/program.hpp"

namespace tutti::execution {

/// Memory of other ranks, for one-sided programs.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// A pointer to byte `offset` of the peer's input or output; nullptr when it is reached by `read` and
  /// `write` only.
  virtual std::byte* at(Rank peer, Base base, std::uint64_t offset) = 0;
  virtual void read(Rank peer, Base base, std::uint64_t offset, std::byte* into, std::size_t bytes) = 0;
  virtual void write(Rank peer, Base base, std::uint64_t offset, const std::byte* from,
                     std::size_t bytes) = 0;
};

struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  PeerMemory* peers = nullptr;  ///< of one-sided programs
  bool lent = true;             ///< other processes may read the input
};

/// One run of one program. Reused from run to run, so that a run allocates nothing.
class Execution {
 public:
  /// Makes ready to run. `program` and the memory behind `buffers` outlive the run.
  void begin(const Program& program, const Buffers& buffers, transport::Tag tag);
  /// As `begin` with the program and the buffers of the last run.
  void begin_again(transport::Tag tag);
  /// Runs what can run. True when something moved.
  bool advance();
  /// All lanes are through, nothing that was sent reads the caller's buffers any more, and all of it arrives
  /// without another call.
  [[nodiscard]] bool done() const { return unfinished_ == 0 && (!program_->flushes || flushed()); }
  /// After `advance` moved nothing: whether a message of one of `ranks` (by rank: not 0) is still to come in
  /// what lanes do next, or else `soon`, or room at one, or one of them has not taken what it was sent.
  [[nodiscard]] bool waits_for_any(std::span<const std::uint8_t> ranks, bool soon = true) const;
  /// Whether all that is left is that a peer copies, which takes a while.
  [[nodiscard]] bool flushes_late() const;
  /// For messages about a wait: ranks that unfinished lanes wait for, and checks for messages of another
  /// form.
  void suspect(std::vector<Rank>& waiting_for);
  /// Bytes of peers' memory touched since the last call of this.
  std::uint64_t take_bytes_direct() { return std::exchange(bytes_direct_, 0); }
  /// Bytes that it holds for pieces of peers' memory.
  [[nodiscard]] std::size_t staged() const { return staging_.size(); }

 private:
  /// An instruction with what can be known of it before the run.
  struct Step {
    const Instruction* instruction = nullptr;
    Instruction::Kind kind = Instruction::Kind::fold;
    bool stable = false;
    std::uint32_t salt = 0;
    std::uint64_t bytes = 0;  ///< in iteration 0
    /// All but folds: where the first source and sink are in iteration 0, and how far they move in each.
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::uint64_t from_stride = 0, to_stride = 0;
    transport::Sender* sender = nullptr;
    transport::Receiver* receiver = nullptr;
  };
  struct LaneState {
    const Step* next = nullptr;
    const Step* end = nullptr;  ///< of the part's, of brief programs the lane's; `next` when it is through
    const Step* first = nullptr;
    const Part* part = nullptr;
    const Part* parts_end = nullptr;
    std::uint64_t iteration = 0;
    std::uint32_t sent = 0;  ///< sinks of `next` that have their message
  };
  void resolve(const Program& program, const std::array<std::byte*, 3>& bases);
  void resolve(const Instruction& instruction, Step& step) const;
  [[nodiscard]] bool flushed() const;
  [[nodiscard]] std::uint64_t steps_in_one_go() const;
  template <bool brief>
  bool advance_lanes();
  template <bool brief>
  bool try_step(LaneState& lane, const Step& step);
  template <bool brief>
  void end_part(LaneState& lane);
  /// Whether the last try of that step, though unsuccessful, moved a part of its message.
  static bool moved_part(const Step& step);
  bool send_to_several(LaneState& lane, const std::byte* data, std::size_t bytes, transport::Tag tag);
  bool try_fold(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes,
                transport::Tag tag);
  void reach_peers(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes);
  /// `modifiers`: hints about sinks that are messages; the rest is filled in.
  void fold(const Instruction& instruction, std::size_t bytes, kernels::FoldModifiers& modifiers);
  bool copy_peers(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes);
  [[nodiscard]] const Source* sources_of(const Instruction& instruction) const {
    return program_->sources.data() + instruction.first_source;
  }
  [[nodiscard]] const Sink* sinks_of(const Instruction& instruction) const {
    return program_->sinks.data() + instruction.first_sink;
  }
  [[nodiscard]] std::uint64_t stride(Base base) const { return base == Base::scratch ? 0 : program_->stride; }
  /// Of this rank; in that iteration.
  [[nodiscard]] std::byte* local(Base base, std::uint64_t offset, std::uint64_t iteration) const {
    return bases_[static_cast<std::size_t>(base)] + offset + iteration * stride(base);
  }

  const Program* program_ = nullptr;
  std::uint64_t program_id_ = 0;
  PeerMemory* peers_ = nullptr;
  std::array<std::byte*, 3> bases_{};  ///< by Base: input, output, scratch
  bool stable_ = false;                ///< sends may be left in the caller's memory
  transport::Tag tag_ = 0;
  std::vector<Step> steps_;  ///< part by part, lane by lane
  std::vector<LaneState> lanes_;
  std::size_t busy_lanes_ = 0;  ///< that have something to do
  std::size_t unfinished_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> sinks_;
  std::vector<std::byte> staging_;  ///< pieces of peers' memory that is not mapped
  std::uint64_t bytes_direct_ = 0;
};

}  // namespace tutti::execution
