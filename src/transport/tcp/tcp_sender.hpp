/// \file
/// The sending end of a FIFO over TCP.
///
/// Message k travels on stream k modulo the number of streams. No credits travel: the kernel's flow control
/// stops a stream, and messages then wait in a short queue here, by reference where the caller's bytes are
/// stable, else in staging buffers.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.hpp"
#include "transport/tcp/fifo.hpp"
#include "transport/tcp/streams.hpp"

namespace tutti::transport::tcp {

class TcpSender final : public Sender {
 public:
  /// `streams`: all connected.
  TcpSender(const FifoName& name, std::shared_ptr<Streams> streams, Counters& counters);

  std::byte* try_reserve(std::size_t bytes) override;
  void publish(std::size_t bytes, Tag tag) override;
  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  /// More than asked for: the kernel has all of it, so that it reaches a peer although nobody calls
  /// `progress` again.
  bool flushed() override { return !backlogged_; }

  /// Writes queued messages as far as the kernel takes them.
  void progress();
  [[nodiscard]] bool backlogged() const { return backlogged_; }
  /// Appends the sockets that have to become writable.
  void add_waits(std::vector<pollfd>& waits) const;
  /// Writes what is queued, until `deadline`, and says end of data, so that closing loses nothing (a socket
  /// with unread input is reset when it is closed: there the peer's acknowledgement is awaited). A queue
  /// that still refers to the caller's memory is dropped instead: that call has failed, and its memory may be
  /// gone.
  void finish(const Deadline& deadline) noexcept;

 private:
  struct Entry {
    Frame frame;
    const std::byte* data = nullptr;  ///< payload; the caller's or `staging`
    std::size_t written = 0;          ///< of header and payload
    Staging staging;
    [[nodiscard]] std::size_t header() const { return header_of(frame.bytes); }
    [[nodiscard]] std::size_t total() const { return header() + frame.bytes; }
  };
  struct Stream {
    int fd = -1;
    std::uint64_t next = 0;  ///< first of its messages that is not wholly written
  };

  [[nodiscard]] Entry& entry(std::uint64_t message) { return entries_[message % entries_.size()]; }
  [[nodiscard]] Stream& stream_of(std::uint64_t message) { return streams_[message % streams_.size()]; }
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool reads_caller_memory();
  void push(const std::byte* data, std::size_t bytes, Tag tag);
  void write(Stream& stream);
  void advance(Stream& stream, std::size_t written);
  void count_backlog();

  FifoName name_;
  Counters& counters_;
  std::shared_ptr<Streams> sockets_;
  std::vector<Stream> streams_;
  std::vector<Entry> entries_;  ///< a ring over message numbers
  std::uint64_t end_ = 0;       ///< messages accepted so far
  bool backlogged_ = false;
};

}  // namespace tutti::transport::tcp
