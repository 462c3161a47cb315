/// \file
/// A reliable connected queue pair from creation to its end. It goes RESET, INIT, RTR, RTS once; after an
/// error it is destroyed and another one made, never reset.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "transport/verbs/status.hpp"
#include "transport/verbs/verbs.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

/// So long routes and neighbours may be missing while a queue pair is connected, and so often it is tried.
inline constexpr std::chrono::seconds unreachable_for{3};
inline constexpr std::chrono::milliseconds retry_unreachable_after{20};

/// All that its transitions need. RNR cannot happen (every immediate has a receive that was posted before),
/// so its retries are few: a violation becomes an error instead of a slow network.
struct QueuePairSetting {
  Place place;
  ibv_pd* domain = nullptr;
  ibv_cq* completions = nullptr;
  ibv_srq* shared_receives = nullptr;  ///< nullptr: its own receive queue
  int sends = 64;                      ///< work requests under way
  int receives = 0;                    ///< of its own queue
  int max_inline = 0;                  ///< wanted; the device may grant less
  int port = 1;
  bool managed = false;  ///< rdma_cm connects it (iWARP)
  std::uint16_t manager_port = 0;
  bool global_route = true;  ///< packets carry addresses: RoCE, or a port that needs them
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  int gid_index = 0;
  int mtu = 1024;
  int access = IBV_ACCESS_REMOTE_WRITE;  ///< what the peer may do, where the memory allows it as well
  int reads_served = 1;                  ///< RDMA READs of the peer under way at most
  int pkey_index = 0;
  int service_level = 0;
  int traffic_class = 0;
  Patience patience;
};

/// One work request. `pieces` lie in registered memory unless `inlined`.
struct Write {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::array<ibv_sge, 2> pieces{};
  int piece_count = 0;
  std::uint64_t to = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t immediate = 0;
  bool inlined = false;
  bool fenced = false;     ///< not before all earlier RDMA READs are done
  bool signalled = false;  ///< ask for a completion; others come now and then

  void add(const ibv_sge& piece) { pieces[static_cast<std::size_t>(piece_count++)] = piece; }
};

class QueuePair {
 public:
  /// RESET and INIT. Throws Error(system).
  QueuePair(Verbs& verbs, const QueuePairSetting& setting);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] std::uint32_t number() const { return handle_->qp_num; }
  [[nodiscard]] ibv_qp* handle() const { return handle_.get(); }
  [[nodiscard]] int max_inline() const { return max_inline_; }
  [[nodiscard]] Address address() const;
  /// RTR and RTS; not for managed ones. `reads`: RDMA READs under way at most, of what the peer serves. False
  /// when there is no way to the peer's address just now: routes and neighbours come and go. Throws
  /// Error(system) for all else, and with `last_try` for that too.
  bool connect(const Address& peer, int reads = 1, bool last_try = true);
  /// `connect`, again and again while there is no way to the peer.
  void connect_patiently(const Address& peer, int reads = 1);

  /// Work requests that can be added now.
  [[nodiscard]] int room() const;
  /// Adds a work request to the batch; returns its number. Its memory must stay until it is done; inlined
  /// memory until `ring`.
  std::uint64_t add(const Write& write);
  /// Posts the batch: one doorbell. Throws Error(system) when the device takes only a part.
  void ring();
  /// A completion said that all up to `number` are done.
  void completed(std::uint64_t number);
  /// The number of the last `completed`.
  [[nodiscard]] std::uint64_t last_completed() const { return completed_; }
  /// A completion will say that all that was posted is done.
  [[nodiscard]] bool will_complete() const { return last_signalled_ == added_; }
  /// All that was posted is done.
  [[nodiscard]] bool drained() const { return completed_ == added_; }

 private:
  static constexpr int batch = 32;
  int try_modify(ibv_qp_attr& attributes, int mask);
  void modify(ibv_qp_attr& attributes, int mask, const char* step);
  [[nodiscard]] Error modify_error(const char* step, int code) const;
  void to_init();
  bool to_rtr(const Address& peer, bool last_try);
  void to_rts(int reads);

  Verbs& verbs_;
  QueuePairSetting setting_;
  QueuePairHandle handle_;
  int max_inline_ = 0;
  std::uint32_t first_packet_ = 0;
  std::uint64_t token_ = 0;
  std::array<ibv_send_wr, batch> requests_{};
  std::array<std::array<ibv_sge, 2>, batch> pieces_{};
  int batched_ = 0;
  std::uint64_t added_ = 0, completed_ = 0, last_signalled_ = 0;
};

}  // namespace tutti::transport::verbs
