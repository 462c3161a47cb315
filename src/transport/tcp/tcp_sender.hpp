/// \file
/// The sending end of a FIFO over TCP.
///
/// Message k travels on stream k modulo the number of streams. No credits travel: the kernel's flow control
/// stops a stream, and messages then wait in a short queue here, by reference where the caller's bytes are
/// stable, else in staging buffers.
///
/// A system call carries many messages for little more than the price of one. So a rank that sends one short
/// message after the other, and receives none, holds them back until there are some (message coalescing, as
/// in MPIs). Nobody's answer waits for them: this rank would wait for that, and sends all before it waits.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "transport/tcp/fifo.hpp"
#include "transport/tcp/late_flush.hpp"
#include "transport/tcp/streams.hpp"

namespace tutti::transport::tcp {

class TcpSender final : public Sender {
 public:
  /// Messages in a row, of a rank that received none from anybody and did not wait, until it holds back.
  static constexpr unsigned held_from = 16;
  /// Longest message that is held back.
  static constexpr std::size_t longest_held = std::size_t{16} << 10;
  /// Bytes that are held back at most, with headers. The kernel sends less than 64 KiB in one go.
  static constexpr std::size_t held_most = std::size_t{44} << 10;

  /// `streams`: all connected. `late`: outlives the use of this object, not the object.
  TcpSender(const FifoName& name, std::shared_ptr<Streams> streams, Counters& counters, LateFlush& late);

  std::byte* try_reserve(std::size_t bytes) override;
  void publish(std::size_t bytes, Tag tag) override;
  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  /// More than asked for: the kernel has all of it, or LateFlush what is held back, so that it reaches a peer
  /// although nobody calls `progress` again.
  bool flushed() override;

  /// Writes queued messages as far as the kernel takes them.
  void progress();
  /// Grows with each message that the kernel has taken wholly: then there is more room. Under the lock of
  /// `late`.
  [[nodiscard]] std::uint64_t taken() const;
  /// Appends the sockets that have to become writable.
  void add_waits(std::vector<pollfd>& waits);
  /// For LateFlush, under its lock: what is held back goes as far as the kernel takes it; appends the sockets
  /// that have to become writable for the rest. What fails is left for the rank to find.
  void flush_held(std::vector<pollfd>& blocked) noexcept;
  [[nodiscard]] bool holds() const { return holds_; }
  /// Writes what the kernel takes of what is queued, and then says end of data, so that closing loses nothing
  /// (a socket with unread input is reset when it is closed: there the peer's acknowledgement is awaited). A
  /// queue that still refers to the caller's memory is dropped instead: that call has failed, and its memory
  /// may be gone. Whether that is done; else it is to be called again.
  bool try_finish() noexcept;

 private:
  struct Entry {
    Frame frame;
    const std::byte* data = nullptr;  ///< payload; the caller's or staged
    std::size_t written = 0;          ///< of header and payload
    [[nodiscard]] std::size_t header() const { return header_of(frame.bytes); }
    [[nodiscard]] std::size_t total() const { return header() + frame.bytes; }
  };
  struct Stream {
    int fd = -1;
    std::uint64_t next = 0;  ///< first of its messages that is not wholly written
  };

  [[nodiscard]] Entry& entry(std::uint64_t message) { return entries_[message % entries_.size()]; }
  /// Where message `message` of `bytes` is staged.
  [[nodiscard]] Staging& staging(std::uint64_t message, std::size_t bytes);
  [[nodiscard]] bool has_slot(std::uint64_t message) const;
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool reads_caller_memory();
  void push(const std::byte* data, std::size_t bytes, Tag tag);
  [[nodiscard]] bool may_hold(std::size_t bytes);
  void stage(std::uint64_t message);
  void write();
  void write(Stream& stream);
  void advance(Stream& stream, std::size_t written);
  void count_backlog();
  void let_go() noexcept;
  void append_waits(std::vector<pollfd>& waits) const;

  FifoName name_;
  Counters& counters_;
  LateFlush& late_;
  std::shared_ptr<Streams> sockets_;
  Clock::time_point last_;  ///< when a message may last have been held back
  // Below: under the lock of `late_`.
  std::vector<Stream> streams_;
  std::vector<Entry> entries_;         ///< a ring over message numbers
  std::vector<Staging> short_, long_;  ///< likewise; of messages up to `longest_held`, and of longer ones
  std::uint64_t end_ = 0;              ///< messages accepted so far
  bool holds_ = false;                 ///< all that is queued is held back, and staged
  bool finished_ = false;              ///< see try_finish
  std::size_t held_bytes_ = 0;         ///< of messages with their headers
  /// Something is queued. Only this rank's thread makes it true, so that one may look without the lock.
  std::atomic<bool> backlogged_{false};
};

/// Before their sockets close: all finish, side by side, until `deadline`, but once at least. Empty ones are
/// passed over.
void finish(std::span<const std::unique_ptr<TcpSender>> senders, const Deadline& deadline) noexcept;

}  // namespace tutti::transport::tcp
