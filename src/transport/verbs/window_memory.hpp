/// \file
/// The memory of a target over RDMA: WRITE and READ where its data lie. A notification is the immediate of
/// the last WRITE, or of an empty one, while the target has receives for it (`ServedPairs`); else a small
/// WRITE behind the data, into the target's counters, of how many went this way.
///
/// That the small WRITE is seen after the data rests on two things: a reliable connection executes WRITEs in
/// their order, and a device without relaxed ordering, which is never asked for here, makes them visible in
/// it. perftest's latency tests and NVSHMEM's signals rest on the same. The two ways may be mixed: each
/// notification is in one of the two counts, and both follow the data that the same queue pair carried.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "transport/remote_memory.hpp"
#include "transport/verbs/window_access.hpp"

namespace tutti::transport::verbs {

/// Without atomics: a device's are as a rule atomic among themselves only (IBV_ATOMIC_HCA), not with those of
/// processors: the owner's, and those of ranks of its host.
class WindowMemory final : public RemoteMemory {
 public:
  /// `access` must stay. Connects on first use.
  WindowMemory(WindowAccess& access, Rank target, RemoteAccess::Ask ask);

  [[nodiscard]] std::string explain() const override;
  void put(std::span<const tutti::Block> blocks) override { move(blocks, IBV_WR_RDMA_WRITE); }
  void get(std::span<const tutti::Block> blocks) override { move(blocks, IBV_WR_RDMA_READ); }
  void submit() override;
  void notify(std::uint32_t id) override;
  [[nodiscard]] std::uint64_t started() const override { return started_; }
  std::uint64_t done() override;
  [[nodiscard]] std::uint64_t known_done() const override { return done_; }
  void wait(std::chrono::microseconds longest) override;

 private:
  /// An operation that has not been posted wholly.
  struct Waiting {
    ibv_wr_opcode opcode{};
    tutti::Block block;
    bool is_total = false;   ///< of notifications; written from `totals_`
    bool ends_call = false;  ///< the last operation of a call: its completion is asked for
    std::uint64_t total = 0;
    std::uint32_t immediate = 0;  ///< the number of the notification that it carries
  };
  /// An operation whose work requests end with number `request`.
  struct Posted {
    std::uint64_t request;
    bool is_read;
  };

  void ensure_connected();
  void connect();
  void move(std::span<const tutti::Block> blocks, ibv_wr_opcode opcode);
  /// The target has a receive for one more immediate.
  [[nodiscard]] bool may_signal() const;
  void signal(std::uint32_t id);
  void write_total(std::uint32_t id);
  void pump();
  Write next_write(Waiting& operation);

  WindowAccess& access_;
  Rank target_;
  RemoteAccess::Ask ask_;
  CompletionQueue completions_;
  std::unique_ptr<verbs::Block> totals_;    ///< that notifications are written from
  std::unique_ptr<verbs::Block> returned_;  ///< a word: how many immediates the target has taken
  std::unique_ptr<QueuePair> pair_;
  std::uint64_t next_total_ = 0;
  std::unordered_map<std::uint32_t, std::uint64_t>
      written_;                ///< notifications that went as totals, by number
  std::uint64_t signals_ = 0;  ///< those that went as immediates
  WindowAnswer theirs_;

  std::deque<Waiting> waiting_;
  std::deque<Posted> posted_;
  int reads_under_way_ = 0;
  std::uint64_t started_ = 0, done_ = 0;
};

}  // namespace tutti::transport::verbs
