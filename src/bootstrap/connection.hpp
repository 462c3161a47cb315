/// \file
/// One end of a lifeline: frames into and out of a non-blocking socket. Nothing here blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>

#include "base/fork_guard.hpp"
#include "bootstrap/frame.hpp"

namespace tutti::bootstrap {

/// Used by one thread at a time.
class Connection {
 public:
  /// The largest payloads of frames that carry all_gather data; others are held to `largest_small_payload`.
  Connection(FileDescriptor socket, std::size_t largest_incoming, std::size_t largest_outgoing);

  using Take = std::function<void(FrameKind, std::span<const std::byte>)>;
  /// Reads what has arrived (a bounded amount, so that one peer cannot keep the caller) and hands on the
  /// whole frames. False once the connection is closed, broken, or the peer exceeded a limit; frames before
  /// that are still handed on.
  bool receive(const Take& take);
  /// Queues a frame. False, with nothing queued, when the peer has left so much unread that it counts as
  /// lost.
  bool send(Frame frame);
  /// Writes what fits. False once the connection is broken; what had arrived before can still be received.
  bool flush();

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool flushed() const { return queue_.empty(); }
  /// What poll(2) should wait for.
  [[nodiscard]] short events() const { return static_cast<short>(flushed() ? POLLIN : POLLIN | POLLOUT); }

 private:
  bool parse(const Take& take);

  PrivateDescriptor socket_;
  std::size_t largest_incoming_, largest_outgoing_;
  Bytes input_;
  std::deque<Frame> queue_;
  std::size_t queued_bytes_ = 0, sent_of_front_ = 0;
  bool input_broken_ = false, output_broken_ = false;
};

}  // namespace tutti::bootstrap
