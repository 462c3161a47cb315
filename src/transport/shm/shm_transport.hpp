/// \file
/// FIFOs through memory shared by the ranks of one host, processes and threads alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "transport/shm/arena.hpp"
#include "transport/shm/direct_memory.hpp"
#include "transport/shm/message_fifo.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::shm {

class ShmTransport final : public Transport {
 public:
  /// Collective over the group; every rank takes part, also one that is alone on its host.
  /// `expect_use`: the memory of the usual FIFOs is made ready now rather than at first use.
  ShmTransport(const Group& group, bool expect_use);

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  [[nodiscard]] bool reaches(Rank peer) const override { return local_of(peer) >= 0; }
  [[nodiscard]] std::string explain(Rank peer) const override;
  [[nodiscard]] std::size_t max_message_bytes() const override { return arena_->layout().max_message(); }
  [[nodiscard]] bool cuts_messages() const override { return true; }
  Sender& sender(Rank peer, int channel) override;
  Receiver& receiver(Rank peer, int channel) override;
  Sender* multicast_sender(int channel) override;
  Receiver* multicast_receiver(Rank from, int channel) override;
  /// Wakes those whom this rank has sent something, or given room.
  void progress() override { wakes_->settle(); }
  void prepare_wait() override;
  void cancel_wait() override;
  void wait(std::chrono::microseconds longest) override;
  [[nodiscard]] bool add_waits(std::vector<pollfd>& waits) override;
  void end_wait(std::span<const pollfd> waits) override;
  [[nodiscard]] Traffic traffic() const override;
  /// Parts that others have copied so far, of messages that stay with this rank until they are received.
  [[nodiscard]] std::uint32_t parts_taken() const;
  /// How often ranks of this host have moved calls on buffers of others so far.
  [[nodiscard]] std::uint32_t steps_on_others() const;

  /// Ranks of the group on this host, ascending; this rank's place among them.
  [[nodiscard]] const std::vector<Rank>& locals() const { return locals_; }
  [[nodiscard]] int local_of(Rank rank) const { return local_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] bool all_local() const { return locals_.size() == local_of_.size(); }
  /// This host among those of the group, in the order of their lowest ranks, and how many these are.
  [[nodiscard]] int host() const { return host_; }
  [[nodiscard]] int hosts() const { return hosts_; }
  /// Ranks a host, when each but the last has equally many consecutive ones and the last no more; otherwise
  /// 0. The same on every rank.
  [[nodiscard]] int host_size() const { return host_size_; }
  /// Processors that the ranks of this host may run on, all together.
  [[nodiscard]] int cpus() const { return cpus_; }
  /// Bytes of their last cache, the same on every rank of this host: not all may see it, in containers, say.
  [[nodiscard]] std::size_t last_cache() const { return last_cache_; }
  /// To be called before this thread yields or sleeps: writes down which processor it leaves, and how long it
  /// was at work there.
  void leave_processor(std::chrono::nanoseconds worked);
  /// To be called when it is back.
  void be_back() { arena_->control(local_rank_).away.store(0, std::memory_order_relaxed); }
  /// Whether other ranks of this host used the processor that was left for most of the time `away` since.
  [[nodiscard]] bool ranks_used(std::chrono::nanoseconds away) const;
  /// By rank of the group: not 0 for the others that, as far as they said, share the processor of this
  /// thread. Valid until the next call.
  [[nodiscard]] std::span<const std::uint8_t> beside();
  /// Likewise for those that do not run while this thread does: they are beside it, or have left their
  /// processors.
  [[nodiscard]] std::span<const std::uint8_t> absent();
  /// A call of this rank has failed or is aborted: no rank of this host touches buffers of others from now
  /// on. Thread safe.
  void close() noexcept;
  /// Says for whoever asks `closed_by` why this rank will have closed them.
  void blame(ErrorCode code, std::span<const Rank> ranks) noexcept;
  struct Closing {
    Rank by;                        ///< the first
    std::optional<ErrorCode> code;  ///< of its failure, if it was one and it had time to say so
    std::vector<Rank> at_fault;     ///< in that, the first few
  };
  [[nodiscard]] std::optional<Closing> closed_by() const;
  /// Closes them, since their callers may free them next. Waits until nobody touches any, at most `longest`;
  /// not for those that are `gone`.
  void close_buffers(std::chrono::milliseconds longest, const std::function<bool(Rank)>& gone);
  /// The control pages of a rank of this host.
  [[nodiscard]] Control& control(Rank rank) const { return arena_->control(local_of(rank)); }
  [[nodiscard]] DirectMemory& direct() { return *direct_; }

 private:
  struct Ends {
    std::unique_ptr<ShmSender> sender;
    std::unique_ptr<ShmReceiver> receiver;
    std::unique_ptr<ShmReceiver> multicast_receiver;  ///< of what that rank sends to all
  };
  Ends& ends(int local, int channel);
  void populate();

  std::vector<int> local_of_;  ///< [rank]: number among the ranks of this host, or -1
  std::vector<Rank> locals_;
  int local_rank_ = 0;
  int host_ = 0;
  int hosts_ = 1;
  int cpus_ = 1;
  std::size_t last_cache_ = 0;
  bool waiting_ = false;  ///< announced
  int host_size_ = 0;
  std::uint32_t processor_ = 0;         ///< announced
  const Processor* left_ = nullptr;     ///< and what it said
  std::uint64_t worked_when_left_ = 0;  ///< then
  std::vector<std::uint8_t> beside_;    ///< what `beside` returned
  std::uint32_t beside_of_ = 0;         ///< for that processor,
  std::uint32_t moves_seen_ = 0;        ///< and when ranks had moved so often
  std::vector<std::uint8_t> absent_;    ///< what `absent` returned
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Wakes> wakes_;
  std::vector<Ends> ends_;  ///< by `place_of`; the sender to this rank itself: to all
  std::unique_ptr<DirectMemory> direct_;
  std::optional<MessageTimes> times_;  ///< there are more ranks than processors
  Traffic traffic_;
};

}  // namespace tutti::transport::shm
