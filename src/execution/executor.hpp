/// \file
/// Runs a Program: lanes are polled state machines, so a lane that waits never blocks another.
#pragma once

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
  /// A pointer to byte `offset` of the peer's input or output; nullptr when it can only be read by `read`.
  virtual std::byte* at(Rank peer, Base base, std::uint64_t offset) = 0;
  virtual void read(Rank peer, Base base, std::uint64_t offset, std::byte* into, std::size_t bytes) = 0;
};

struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  PeerMemory* peers = nullptr;
};

/// One run of one program. Reused from run to run, so that a run allocates nothing.
class Execution {
 public:
  /// Makes ready to run. `program` and the memory behind `buffers` outlive the run.
  void begin(const Program& program, const Buffers& buffers, transport::Tag tag);
  /// Runs what can run. True when something moved.
  bool advance();
  /// All lanes are through, nothing that was sent reads the caller's buffers any more, and all of it arrives
  /// without another call.
  [[nodiscard]] bool done();
  /// After `advance` moved nothing: whether a message of one of `ranks` (by rank: not 0) is still to come in
  /// what lanes do next or soon, or room at one.
  [[nodiscard]] bool waits_for_any(std::span<const std::uint8_t> ranks) const;
  /// For messages about a wait: ranks that unfinished lanes wait for, and checks for messages of another
  /// form.
  void suspect(std::vector<Rank>& waiting_for);
  /// Bytes of peers' memory touched since the last call of this.
  std::uint64_t take_bytes_direct() { return std::exchange(bytes_direct_, 0); }

 private:
  struct LaneState {
    const std::vector<Part>* parts = nullptr;
    std::uint32_t part = 0, step = 0, sent = 0;
    std::uint64_t iteration = 0;
  };
  bool try_step(LaneState& lane, const Instruction& instruction);
  bool try_send(LaneState& lane, const Instruction& instruction, std::uint64_t iteration, std::size_t bytes,
                transport::Tag tag);
  bool try_fold(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes,
                transport::Tag tag);
  bool copy_from_peer(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes);
  std::byte* memory(Base base, Rank owner, std::uint64_t offset, std::uint64_t iteration);
  void step_over(LaneState& lane) const;

  const Program* program_ = nullptr;
  Buffers buffers_;
  transport::Tag tag_ = 0;
  std::vector<LaneState> lanes_;
  std::size_t unfinished_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> sinks_;
  std::vector<std::byte> staging_;  ///< pieces of peers' memory that can only be read
  std::uint64_t bytes_direct_ = 0;
};

}  // namespace tutti::execution
