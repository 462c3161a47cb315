/// \file
/// One device in use: what its queue pairs share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/verbs/choice.hpp"
#include "transport/verbs/completion_events.hpp"
#include "transport/verbs/connection_manager.hpp"
#include "transport/verbs/device_events.hpp"
#include "transport/verbs/memory.hpp"
#include "transport/verbs/queue_pair.hpp"

namespace tutti::transport::verbs {

/// Completions that can be outstanding from one peer: a message a slot, and a credit returned alone for as
/// many of ours as may be owed.
inline constexpr int receives_a_peer = channels * (slots + slots / channel_credits);
/// Work requests under way to one peer.
inline constexpr int sends_a_peer = 64;

/// Receives are nothing but permits for immediates (and hold four bytes where a send stands for one). Their
/// number never falls below what peers may use, so that a peer never meets an empty queue.
class Rail {
 public:
  /// Opens the device. `peers`: queue pairs at most. Throws Error(system).
  Rail(Verbs& verbs, ChosenPort chosen, ChosenGid gid, const VerbsOptions& options, Rank rank, int peers);
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const Device& device() const { return chosen_.device; }
  [[nodiscard]] const Port& port() const { return chosen_.port; }
  [[nodiscard]] const ChosenGid& gid() const { return gid_; }
  [[nodiscard]] Place place(Rank peer = -1) const;
  /// The key of the partition that its queue pairs are in; 0: not known.
  [[nodiscard]] std::uint16_t partition() const { return partition_; }
  [[nodiscard]] const Patience& patience() const { return patience_; }
  [[nodiscard]] Signal wanted_signal() const { return options_.signal; }
  /// How the receiver of so many bytes learns of them.
  [[nodiscard]] Signal signal_for(std::size_t bytes) const {
    return verbs::signal_for(options_.signal, port().layer, bytes);
  }
  /// What connects its queue pairs; nullptr where they are connected by numbers alone.
  [[nodiscard]] ConnectionManager* manager() const { return manager_.get(); }

  /// How its queue pairs go on their way; queues are for whoever makes one.
  [[nodiscard]] QueuePairSetting setting(Rank peer) const;
  /// Queue pairs that may stay open however idle: all, or one less than its queues hold.
  [[nodiscard]] int most_idle_pairs() const { return most_pairs_ < peers_ ? most_pairs_ - 1 : peers_; }
  /// In INIT, its receives posted. Throws Error(system), also once the device is lost.
  std::unique_ptr<QueuePair> make_pair(Rank peer);
  /// Before a queue pair is destroyed.
  void forget_pair(const QueuePair& pair);

  /// Takes completions; their number. Throws Error(system).
  int poll(std::span<ibv_wc> completions);
  /// The immediate of a receive.
  [[nodiscard]] std::uint32_t immediate_of(const ibv_wc& completion) const;
  /// Fills its place in the queue again, of which the immediate was read. Throws Error(system).
  void post_again(const ibv_wc& completion, const QueuePair& pair, Rank peer);
  static bool is_receive(const ibv_wc& completion) { return (completion.wr_id & receive_mark) != 0; }

  /// Before sleeping: the next completion makes `event_fd` readable. A system call, but not where an earlier
  /// one still holds.
  void arm() { events_->arm(completions_.get()); }
  /// The event was seen.
  void clear_events() { events_->clear(completions_.get()); }
  /// -1, which nothing wakes, once the device is lost: it would be readable for good.
  [[nodiscard]] int event_fd() const { return device_events_->loss() ? -1 : events_->fd(); }
  [[nodiscard]] DeviceEvents& device_events() { return *device_events_; }

 private:
  static constexpr std::uint64_t receive_mark = std::uint64_t{1} << 63;
  void make_queues();
  static std::size_t place_of(const ibv_wc& completion) {
    return static_cast<std::size_t>(completion.wr_id & ~receive_mark);
  }
  [[nodiscard]] std::byte* buffer_of(std::size_t place_number) const;
  void post_receive(std::size_t place_number, ibv_qp* pair, Rank peer);
  std::size_t free_place();
  void post_receives(const QueuePair& pair, Rank peer);

  Verbs& verbs_;
  ChosenPort chosen_;
  ChosenGid gid_;
  VerbsOptions options_;
  Rank rank_;
  Patience patience_;
  Context context_;
  std::optional<DeviceEvents> device_events_;  ///< always, once constructed
  std::uint16_t partition_ = 0;
  Domain domain_;
  std::optional<CompletionEvents> events_;  ///< always, once constructed
  CompletionQueue completions_;
  SharedReceiveQueue shared_;
  std::unique_ptr<ConnectionManager> manager_;
  int peers_;
  int most_pairs_ = 0;
  int pairs_ = 0;
  int shared_posted_ = 0;
  std::vector<std::unique_ptr<Block>> receive_blocks_;  ///< a page of receive buffers each
  std::vector<std::size_t> free_places_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> own_places_;  ///< of pairs with their own queue
};

}  // namespace tutti::transport::verbs
