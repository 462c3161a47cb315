/// \file
/// FIFOs over TCP, between any two ranks that have a route to each other.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/tcp/late_flush.hpp"
#include "transport/tcp/listener.hpp"
#include "transport/tcp/tcp_receiver.hpp"
#include "transport/tcp/tcp_sender.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::tcp {

/// Equal on all ranks.
struct TcpOptions {
  /// Connections a channel, 1 to 16: more than one where a single one does not fill the network.
  int streams = 1;
  std::string congestion;  ///< control of congestion: see data_socket.hpp
};

class TcpTransport final : public Transport {
 public:
  /// Collective: exchanges addresses. `group.communicator` below 2^48; `options.streams` the same on all
  /// ranks. Throws Error(invalid_argument) for options out of range.
  TcpTransport(Group group, std::shared_ptr<TcpListener> listener, const bootstrap::Secret& secret,
               const TcpOptions& options = {});
  /// Delivers what was published, within `linger`.
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] std::string_view name() const override { return "tcp"; }
  [[nodiscard]] bool reaches(Rank peer) const override;
  [[nodiscard]] std::string explain(Rank peer) const override;
  [[nodiscard]] std::size_t max_message_bytes() const override { return max_message; }
  [[nodiscard]] double port_rate() const override;
  /// Whether a message of `peer` is awaited on a connection that the peer has not been seen to close: what it
  /// sent may still be on its way.
  [[nodiscard]] bool may_bring_from(Rank peer) const;
  Sender& sender(Rank peer, int channel) override;
  Receiver& receiver(Rank peer, int channel) override;
  void progress() override;
  /// Likewise, of a rank that waits for something.
  void idle() {
    counters_.sent_in_a_row = 0;
    progress();
  }
  [[nodiscard]] bool backlogged() const override { return counters_.backlogged != 0; }
  void prepare_wait() override;
  void wait(std::chrono::microseconds longest) override;
  [[nodiscard]] bool add_waits(std::vector<pollfd>& waits) override;
  void end_wait(std::span<const pollfd> waits) override;
  [[nodiscard]] Traffic traffic() const override { return counters_.traffic; }
  /// Bytes that sockets have taken or given, also of messages that are not complete.
  [[nodiscard]] std::uint64_t moved() const { return counters_.moved.load(std::memory_order_relaxed); }

  /// How long the destructor waits for peers that do not read.
  static constexpr std::chrono::milliseconds linger{1000};

 private:
  struct Peer {
    std::string address;
    std::uint16_t port = 0;
    bool hidden = false;  ///< at a loopback interface that is not this rank's
  };

  void exchange_addresses();
  [[nodiscard]] std::string congestion_to(Rank peer) const;  ///< for a sentence; empty: not connected
  [[nodiscard]] std::size_t index(Rank peer, int channel) const;
  /// Those shared by both directions; made, but not connected.
  std::shared_ptr<Streams>& streams(Rank peer, int channel);
  void connect(Streams& streams, Rank peer, int channel);
  PrivateDescriptor await_connection(Rank peer, int channel, int stream, const Deadline& deadline);
  /// Grows with each message that the kernel has taken wholly.
  [[nodiscard]] std::uint64_t taken() const;

  Group group_;
  std::uint64_t generation_ = fork_generation();  ///< a child made by fork has no part in the group
  std::shared_ptr<TcpListener> listener_;
  std::shared_ptr<Inbox> inbox_;
  bootstrap::Secret secret_;
  TcpOptions options_;
  std::vector<Peer> peers_;
  Counters counters_;
  /// A child made by fork leaves it as it is: the thread may have been in the middle of something.
  std::unique_ptr<LateFlush, DeleteUnlessForked> late_{new LateFlush};
  std::vector<std::shared_ptr<Streams>> streams_;        ///< by peer and channel; made on first use
  std::vector<std::unique_ptr<TcpSender>> senders_;      ///< by peer and channel; made on first use
  std::vector<std::unique_ptr<TcpReceiver>> receivers_;  ///< likewise
  std::optional<std::uint64_t> taken_before_wait_;       ///< where something was queued at `prepare_wait`
  std::vector<pollfd> waits_;                            ///< kept for its capacity
};

}  // namespace tutti::transport::tcp
