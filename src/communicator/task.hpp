/// \file
/// One call under way on one communicator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <tutti/call.hpp>

#include "base/deadline.hpp"
#include "communicator/plan.hpp"
#include "execution/executor.hpp"

namespace tutti {

/// Peers' buffers as they were offered.
class OfferedMemory final : public execution::PeerMemory {
 public:
  struct Offer {
    transport::shm::MemoryOffer input, output;
    transport::shm::Reach reach{};  ///< of all this rank's buffers; `none`: its call has no one-sided form
    PathTrial::Times times{};       ///< where the call decides a trial
  };
  std::byte* at(Rank peer, execution::Base base, std::uint64_t offset) override;
  void read(Rank peer, execution::Base base, std::uint64_t offset, std::byte* into,
            std::size_t bytes) override;
  void write(Rank peer, execution::Base base, std::uint64_t offset, const std::byte* from,
             std::size_t bytes) override;
  /// Once all `offers` have come, of ranks that all share this host. Returns how all can be reached: the same
  /// on every rank.
  transport::shm::Reach resolve(transport::shm::DirectMemory& direct);
  std::vector<Offer> mine;    ///< one to all; of v-forms one a rank: the block that it may read
  std::vector<Offer> offers;  ///< by rank

 private:
  [[nodiscard]] const transport::shm::MemoryOffer& memory_of(Rank peer, execution::Base base) const;
  struct Place {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  transport::shm::DirectMemory* direct_ = nullptr;
  std::vector<Place> places_;
  bool mapped_ = false;
};

/// What all calls that are equal leave in the log of what ranks do.
struct LoggedForm {
  std::uint64_t kind = 0, elements = 0;
};

struct Task {
  Call call;                        ///< counts of v-forms lie with the caller: only while it is under way
  std::uint64_t generation = 0;     ///< of plans, when this one was planned; 0: nothing is known of `call`
  std::vector<std::size_t> counts;  ///< storage of the call's spans, when they must outlive the caller's
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const execution::Program> point_to_point;  ///< send and receive have a program and no plan
  execution::Execution execution;
  execution::Buffers buffers;
  std::vector<std::byte> scratch, input_copy;
  OfferedMemory peers;
  std::uint64_t sequence = 0;
  transport::Tag tag = 0;
  Sizes sizes;
  bool counted = false;      ///< `call` is a v-form
  LoggedForm logged;         ///< of `call`
  bool plain = false;        ///< runs one program on the caller's buffers, whatever others do
  bool begun = false;        ///< a collective begins when those before it are done
  bool offering = false;     ///< still exchanging offers
  bool on_others = false;    ///< runs on buffers of others, mapped or by attach
  PathTrial::Turn turn;      ///< where the plan has a trial
  PathTrial::Turn own_turn;  ///< where the plan has one of this rank alone, and the other one's is by slots
  Clock::time_point since;   ///< of a call that it times
  std::uint64_t ticket = 0;  ///< order among sends to, or receives from, one peer
  bool done = false;

  /// The ranks that it waits for. Nobody before it has begun, which it may not have though it is next: the
  /// one before it may have ended while its members were checked. Throws transport::Mismatch.
  [[nodiscard]] std::vector<Rank> awaited() {
    std::vector<Rank> ranks;
    if (begun) execution.suspect(ranks);
    return ranks;
  }
  /// A plan that no other task holds is memory for that of other counts.
  void forget_counts() {
    if (!counted) return;
    plan = nullptr;
    generation = 0;
  }
  /// Frees what a task that is kept for other calls should not hold meanwhile.
  void give_back() {
    constexpr std::size_t most_kept = std::size_t{256} << 10U;  // bytes
    if (scratch.size() + input_copy.size() + execution.staged() <= most_kept) return;
    scratch = input_copy = std::vector<std::byte>();
    execution = {};
    plan = nullptr;
    generation = 0;
  }
};

}  // namespace tutti
