/// \file
/// This rank's part of a window over RDMA: its memory, registered for peers, and the queue pairs that they
/// come through.
///
/// A rank that first uses a target makes a queue pair and tells its address to the server of the target's
/// window, which makes the other end (`ServedPairs`) and answers with address and keys. So a pair of ranks
/// has one queue pair a direction of use, and only where it is used.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "transport/remote_memory.hpp"
#include "transport/verbs/device_events.hpp"
#include "transport/verbs/memory.hpp"
#include "transport/verbs/queue_pair.hpp"
#include "transport/verbs/rail.hpp"
#include "transport/verbs/served_pairs.hpp"

namespace tutti::transport::verbs {

class WindowAccess final : public RemoteAccess {
 public:
  /// Opens the device of the rail anew, so that windows need no lock against channels. Throws Error(system).
  WindowAccess(std::shared_ptr<Verbs> verbs, const Rail& rail, const Exposure& exposure);
  Bytes answer(Rank from, std::span<const std::byte> question) override;
  std::unique_ptr<RemoteMemory> reach(Rank target, Ask ask) override;
  void progress() override { served_->take(); }
  void wait(std::chrono::microseconds longest) override { served_->wait(longest); }
  void check(Rank peer) override;

  [[nodiscard]] Verbs& verbs() const { return *verbs_; }
  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const Exposure& exposure() const { return exposure_; }
  [[nodiscard]] std::uint32_t longest_message() const { return longest_message_; }
  [[nodiscard]] std::uint32_t memory_key() const { return memory_ ? memory_->local_key(0) : 0; }
  /// RDMA READs that this device has under way at a time.
  [[nodiscard]] int reads() const { return reads_; }
  /// How a put of so many bytes may carry its notification.
  [[nodiscard]] Signal signal_for(std::size_t bytes) const {
    return verbs::signal_for(signal_, layer_, bytes);
  }
  /// For a queue pair to `peer`.
  [[nodiscard]] QueuePairSetting setting(Rank peer) const;
  [[nodiscard]] const std::string& device() const { return setting_.place.device; }

 private:
  std::shared_ptr<Verbs> verbs_;
  Exposure exposure_;
  QueuePairSetting setting_;
  std::uint32_t longest_message_;
  Signal signal_;
  LinkLayer layer_;
  Context context_;
  std::optional<DeviceEvents> events_;  ///< always, once constructed
  Clock::time_point looked_;            ///< for events
  Domain domain_;
  std::shared_ptr<const Region> memory_;  ///< nullptr when empty
  std::shared_ptr<const Region> counters_;
  int reads_ = 1, reads_served_ = 1;
  std::optional<ServedPairs> served_;  ///< always, once constructed
};

}  // namespace tutti::transport::verbs
