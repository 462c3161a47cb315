/// \file
/// The receiving end of a FIFO over TCP. It knows the size of every message beforehand, so header and payload
/// are read by one system call, straight into place, and never a byte of the next message.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>

#include "transport/tcp/fifo.hpp"
#include "transport/tcp/inbox.hpp"
#include "transport/tcp/streams.hpp"

namespace tutti::transport::tcp {

class TcpReceiver final : public Receiver {
 public:
  /// Takes streams that are not connected from `inbox` when it first needs them: the peer connects when it
  /// first sends. `world`: the world rank of the peer.
  TcpReceiver(const FifoName& name, Rank world, std::shared_ptr<Streams> streams, Inbox& inbox,
              Counters& counters);

  const std::byte* try_acquire(std::size_t bytes, Tag tag) override;
  void release() override;
  bool try_receive(std::byte* into, std::size_t bytes, Tag tag) override;

  /// True after a try that found no complete message.
  [[nodiscard]] bool waiting() const { return waiting_; }
  /// The socket that has to become readable; -1 while the peer has not connected.
  [[nodiscard]] int wait_fd() const { return current(); }

 private:
  [[nodiscard]] int current() const { return streams_->fd(next_ % streams_->size()); }
  bool connect();
  bool read(std::byte* into, std::size_t bytes, Tag tag);
  [[nodiscard]] bool complete(std::size_t bytes, Tag tag) const;
  void finish();

  FifoName name_;
  Rank world_;
  Inbox& inbox_;
  Counters& counters_;
  std::shared_ptr<Streams> streams_;
  std::uint64_t next_ = 0;        ///< number of the next message
  std::uint64_t inbox_seen_ = 0;  ///< connections filed when this end last looked
  Frame frame_;
  std::size_t got_ = 0;         ///< of header and payload of the next message
  std::byte* place_ = nullptr;  ///< where its payload goes; fixed by the first byte that arrives
  Staging staging_;
  bool acquired_ = false;
  bool waiting_ = false;
};

}  // namespace tutti::transport::tcp
