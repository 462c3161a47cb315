/// \file
/// The path to one peer: a queue pair a rail, the control connection beside them, and the FIFOs that share
/// both.
///
///     begin     queue pairs in INIT, receives posted, hello sent      (control connection made or accepted)
///     hello     the peer's queue pairs are known: RTR, RTS (iWARP: the lower rank connects through rdma_cm)
///               when all are connected, ready is sent
///     ready     the peer can receive: posting may begin, on each channel once its slots were offered
///     rest      the queue pairs are closed, the control connection stays; `hello` makes new ones
///     bye       the peer leaves; what it has received is known
///
/// Either side may begin, at any moment, and neither waits for the other: a sender accepts messages before it
/// can post them. When both begin, the connection of the lower rank is used.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "transport/verbs/control.hpp"
#include "transport/verbs/shared.hpp"
#include "transport/verbs/stripe.hpp"
#include "transport/verbs/verbs_receiver.hpp"
#include "transport/verbs/verbs_sender.hpp"

namespace tutti::transport::verbs {

/// A page of a link: headers and signals that a device reads from memory.
inline constexpr std::size_t scratch_bytes = 4096;

class Link {
 public:
  /// `rails`: how many of the shared ones lead to this peer, the first ones.
  Link(Shared& shared, Rank peer, int rails);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  VerbsSender& sender(int channel) { return senders_[static_cast<std::size_t>(channel)]; }
  VerbsReceiver& receiver(int channel) { return receivers_[static_cast<std::size_t>(channel)]; }
  [[nodiscard]] int rails() const { return rails_; }
  [[nodiscard]] Rank peer() const { return peer_; }

  // link_connect.cpp: from nothing to ready, and to the end.

  /// Neither a connection of ours nor one of the peer's is in use.
  [[nodiscard]] bool unused() const { return !control_; }
  [[nodiscard]] bool ready() const { return connected() && ready_taken_; }
  [[nodiscard]] bool connecting() const { return !finished() && !ready() && !resting(); }
  /// Uses a connection that this rank made, or that the peer made. What goes wrong fails the link.
  void begin(PrivateDescriptor connection, bool mine);
  /// What became of a queue pair that rdma_cm connects.
  void managed_outcome(std::size_t rail, const ConnectionManager::Outcome& outcome);
  /// Messages will be sent on, or awaited from, this channel.
  void send_on(int channel);
  void receive_on(int channel);
  /// Takes what came over the control connection. True when something changed.
  bool advance();
  /// The peer has closed, or this side has failed.
  [[nodiscard]] bool finished() const { return !control_ || control_.closed() || failure_.has_value(); }
  /// Asks for completions of all that was posted; all of it has arrived.
  void request_completions();
  [[nodiscard]] bool all_delivered() const;
  void say_bye();

  // link_rest.cpp: idle queue pairs are closed, when both sides agree.

  /// Has queue pairs, and has not asked to close them.
  [[nodiscard]] bool awake() const { return !pairs_.empty() && !asked_; }
  /// When the queue pairs were last used, on the transport's own coarse clock.
  [[nodiscard]] Clock::time_point used_at() const { return used_at_; }
  /// Queue pairs are being made or closed: what completions changed takes another look.
  [[nodiscard]] bool changing() const { return connecting() || asked_ || theirs_at_rest_; }
  /// That, or something was accepted and not posted.
  [[nodiscard]] bool backlogged() const {
    return !finished() && (changing() || std::ranges::any_of(senders_, &VerbsSender::pending));
  }
  /// Asks the peer to close, if nothing is under way; else sees to it that this becomes known.
  void try_to_rest();

  // link.cpp: the data path.

  /// Bytes that a work request may hold itself, on all rails; known once begun.
  [[nodiscard]] int max_inline() const { return max_inline_; }
  /// The rail that a part of a message takes.
  [[nodiscard]] std::size_t rail_of(int channel, int part) const;
  /// Adds the work requests of a message to the batches; false while there is no room, no slot, no
  /// connection.
  bool post(int channel, std::uint64_t sequence, Outgoing& message);
  /// Posts the batches.
  void ring();
  /// So many messages of a channel have been released. The peer learns of it by the next message that goes
  /// its way, or by a signal alone when half of the slots are owed.
  void return_credit(int channel, std::uint64_t released);
  /// What came along with a message of a channel.
  void take_credits(int channel, const Header& header);
  /// A completion of rail `rail`.
  void complete(std::size_t rail, const ibv_wc& completion);
  /// Another number when completions have been taken since; unless connections were closed meanwhile, which
  /// start anew.
  [[nodiscard]] std::uint64_t completions_taken() const;
  /// Sends what had no room before.
  void retry();

  /// Throws what made this link unusable, if anything did.
  void check();
  /// The device or the peer's data say that it cannot be used any more. Where they blame nobody, this rank is
  /// at fault.
  void fail(const Error& why);
  /// The device refused something or failed at it: fails, unless the peer has gone, which explains it.
  void fail_unless_gone(const Error& why);
  void violated(const char* what);
  [[nodiscard]] bool failed() const { return failure_.has_value(); }

 private:
  /// A message part whose work requests end with number `request` of its rail.
  struct Pending {
    std::uint64_t request;
    int channel;
    std::uint64_t sequence;
  };

  [[nodiscard]] bool connected() const { return hello_taken_ && connected_rails_ == (1U << rails_) - 1; }
  void make_pairs();
  /// Queue pairs, where there are none, and the peer is told of them; else it has failed.
  void introduce();
  void close_pairs();
  void connect_pairs();
  [[nodiscard]] bool resting() const { return control_ && pairs_.empty(); }
  [[nodiscard]] bool in_use() const;
  [[nodiscard]] bool drained() const;
  void ask();
  void rest_if_agreed();
  void rest();
  void stop_watching();
  void say_hello();
  void say_ready();
  void give_offer(int channel);
  void take(ControlKind kind, std::span<const std::byte> bytes);
  void take(const Hello& hello);
  void take(const Offer& offer);
  void take(const Bye& bye);
  void take(const Rest& rest);
  void take(const Stay& stay);
  [[nodiscard]] bool has_room(int channel, const Outgoing& message, int parts) const;
  void post_placed(std::size_t rail, const Outgoing& message);
  Write write_of(int channel, std::uint64_t sequence, const Outgoing& message, const Part& part, int index);
  void post_part(int channel, std::uint64_t sequence, Outgoing& message, int parts, int part);
  std::uint64_t add_signal(std::size_t rail, Signal signal, Write write, const Immediate& immediate);
  bool post_credit(int channel);
  void add_credits(int channel, Header& header);
  void take_signal(std::size_t rail, const ibv_wc& completion);
  ibv_sge scratch(std::size_t rail, std::size_t offset, const void* value, std::size_t bytes);

  Shared& shared_;
  Rank peer_;
  int rails_;
  std::vector<VerbsSender> senders_;
  std::vector<VerbsReceiver> receivers_;

  Control control_, parked_;
  bool began_ = false;  ///< `control_` was made by this rank
  bool hello_taken_ = false, ready_sent_ = false, ready_taken_ = false, bye_taken_ = false;
  Hello theirs_;                       ///< once `hello_taken_`
  std::uint32_t connected_rails_ = 0;  ///< bit k: the queue pair of rail k can receive and send
  Clock::time_point connect_by_, connect_next_;
  std::uint32_t sending_ = 0, receiving_ = 0, wanted_ = 0, offered_ = 0;  ///< bit c: channel c
  std::array<std::optional<Offer>, channels> offers_;
  std::uint8_t epoch_ = 0;  ///< how often queue pairs have been closed, modulo 2^8; the same on both sides

  Clock::time_point used_at_;
  std::optional<std::array<std::uint64_t, channels>>
      asked_;                           ///< this side has said `rest`, and these credits
  std::optional<Rest> theirs_at_rest_;  ///< the peer has said it
  std::optional<Hello> early_hello_;    ///< the peer has closed, and begins again before this side closed
  std::array<std::uint64_t, max_rails> signals_sent_{}, signals_taken_{};  ///< of the present queue pairs

  std::unique_ptr<Block> scratch_;  ///< headers and signals that a device reads from memory
  std::size_t next_signal_ = 0;
  std::vector<std::unique_ptr<QueuePair>> pairs_;
  std::vector<std::deque<Pending>> pending_;  ///< by rail
  int max_inline_ = 0;
  std::array<std::uint64_t, channels> released_{};  ///< what the peer should know
  std::array<std::uint64_t, channels> told_{};      ///< what it was told

  std::optional<Error> failure_;
  std::optional<Clock::time_point> lost_at_;
};

}  // namespace tutti::transport::verbs
