/// \file
/// This rank's part of a window over RDMA: its memory, registered for peers, and the queue pairs that they
/// come through.
///
/// A rank that first uses a target makes a queue pair and tells its address to the server of the target's
/// window, which makes the other end and answers with address and keys. So a pair of ranks has one queue pair
/// a direction of use, and only where it is used. The target's end sends nothing and its rank need not call.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "transport/remote_memory.hpp"
#include "transport/verbs/memory.hpp"
#include "transport/verbs/queue_pair.hpp"
#include "transport/verbs/rail.hpp"

namespace tutti::transport::verbs {

/// The end of one who wants to reach memory.
struct WindowQuestion {
  Address address;
};
/// The end of its owner, and what it gives.
struct WindowAnswer {
  Address address;
  std::uint64_t memory = 0;
  std::uint64_t counters = 0;
  std::uint32_t memory_key = 0;
  std::uint32_t counters_key = 0;
  std::uint32_t reads = 1;  ///< RDMA READs that its device serves at a time
};

class WindowAccess final : public RemoteAccess {
 public:
  /// Opens the device of the rail anew, so that windows need no lock against channels. Throws Error(system).
  WindowAccess(std::shared_ptr<Verbs> verbs, const Rail& rail, const Exposure& exposure);
  Bytes answer(Rank from, std::span<const std::byte> question) override;
  std::unique_ptr<RemoteMemory> reach(Rank target, Ask ask) override;

  [[nodiscard]] Verbs& verbs() const { return *verbs_; }
  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const Exposure& exposure() const { return exposure_; }
  [[nodiscard]] std::uint32_t longest_message() const { return longest_message_; }
  [[nodiscard]] std::uint32_t memory_key() const { return memory_ ? memory_->local_key(0) : 0; }
  /// RDMA READs that this device has under way at a time.
  [[nodiscard]] int reads() const { return reads_; }
  /// For a queue pair to `peer`.
  [[nodiscard]] QueuePairSetting setting(Rank peer) const;
  [[nodiscard]] const std::string& device() const { return setting_.place.device; }

 private:
  std::shared_ptr<Verbs> verbs_;
  Exposure exposure_;
  QueuePairSetting setting_;
  std::uint32_t longest_message_;
  Context context_;
  Domain domain_;
  std::shared_ptr<const Region> memory_;  ///< nullptr when empty
  std::shared_ptr<const Region> counters_;
  int reads_ = 1, reads_served_ = 1;
  CompletionQueue unused_;                        ///< of the pairs below, which post nothing
  std::list<std::unique_ptr<QueuePair>> served_;  ///< made by the server's thread
};

}  // namespace tutti::transport::verbs
