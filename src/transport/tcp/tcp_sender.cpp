#include "transport/tcp/tcp_sender.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <exception>
#include <utility>

#include "kernels/fold.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

namespace {

/// Messages that one system call may carry.
constexpr std::size_t batch = 16;

struct Gather {
  std::array<iovec, 2 * batch> parts;
  std::size_t count = 0;
  std::size_t bytes = 0;

  void add(const void* data, std::size_t size) {
    if (size == 0) return;
    parts.at(count++) = {const_cast<void*>(data), size};
    bytes += size;
  }
};

bool has_input(int socket) {
  std::byte byte{};
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

// False also when nothing will be: the peer has reset the connection.
bool awaits_acknowledgement(int socket) {
  // TCP_CLOSE, which only netinet/tcp.h names, and that does not go with linux/tcp.h.
  constexpr int closed = 7;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == closed)
    return false;
  int waiting = 0;
  return ::ioctl(socket, SIOCOUTQ, &waiting) == 0 && waiting != 0;
}

}  // namespace

TcpSender::TcpSender(const FifoName& name, std::shared_ptr<Streams> streams, Counters& counters,
                     LateFlush& late)
    : name_(name),
      counters_(counters),
      late_(late),
      sockets_(std::move(streams)),
      entries_(batch * sockets_->size()),
      short_(entries_.size()),
      long_(channel_credits * sockets_->size()) {
  for (std::size_t s = 0; s < sockets_->size(); ++s) streams_.push_back({sockets_->fd(s), s});
  counters_.traffic.memory_held +=
      entries_.size() * sizeof(Entry) + (short_.size() + long_.size()) * sizeof(Staging);
}

// The ring has room for the same number of messages of every stream, so the slot of the next message was last
// used by its stream.
bool TcpSender::has_slot(std::uint64_t message) const {
  return message < streams_[message % streams_.size()].next + entries_.size();
}

// Of messages that are held back there may be more.
bool TcpSender::full() const {
  return !holds_ && streams_[end_ % streams_.size()].next + channel_credits * streams_.size() <= end_;
}

std::byte* TcpSender::try_reserve(std::size_t bytes) {
  assert(bytes <= max_message);
  const auto locked = late_.lock();
  return full() ? nullptr : staging(end_, bytes).ensure(bytes, counters_);
}

void TcpSender::publish(std::size_t bytes, Tag tag) {
  const auto locked = late_.lock();
  assert(has_slot(end_));
  push(staging(end_, bytes).ensure(bytes, counters_), bytes, tag);
}

bool TcpSender::try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) {
  assert(bytes <= max_message);
  const auto locked = late_.lock();
  if (full()) return false;
  const std::uint64_t message = end_;
  push(data, bytes, tag);
  if (const Entry& mine = entry(message); !stable && !holds_ && mine.written < mine.total()) stage(message);
  return true;
}

bool TcpSender::flushed() {
  if (!backlogged_) return true;
  const auto locked = late_.lock();
  return !backlogged_ || holds_;
}

// What is held back is short, and of the rest no more than `channel_credits` messages a stream are queued.
Staging& TcpSender::staging(std::uint64_t message, std::size_t bytes) {
  auto& rooms = bytes > longest_held ? long_ : short_;
  return rooms[message % rooms.size()];
}

// The caller may overwrite now what the kernel left. It keeps its offset, so that `written` stays true.
void TcpSender::stage(std::uint64_t message) {
  Entry& e = entry(message);
  const std::size_t sent = e.written > e.header() ? e.written - e.header() : 0;
  const std::size_t left = e.frame.bytes - sent;
  std::byte* copy = staging(message, e.frame.bytes).ensure(e.frame.bytes, counters_);
  if (left > 0) kernels::copy_block(copy + sent, e.data + sent, left);
  counters_.traffic.bytes_copied += left;
  e.data = copy;
}

bool TcpSender::reads_caller_memory() {
  for (const auto& stream : streams_)
    for (auto message = stream.next; message < end_; message += streams_.size()) {
      const Entry& e = entry(message);
      if (e.frame.bytes > 0 && e.data != staging(message, e.frame.bytes).get()) return true;
    }
  return false;
}

void TcpSender::push(const std::byte* data, std::size_t bytes, Tag tag) {
  Entry& mine = entry(end_);
  mine.frame = {
      Frame::expected_magic, tag, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(end_), {}};
  mine.data = data;
  mine.written = 0;
  const bool held = may_hold(bytes);
  if (held && data != staging(end_, bytes).get()) stage(end_);  // before LateFlush may see it
  ++counters_.traffic.messages_sent;
  counters_.traffic.bytes_sent += bytes;
  ++end_;
  if (!held) {
    let_go();  // LateFlush touches no memory of callers
    return write();
  }
  holds_ = true;
  held_bytes_ += mine.total();
  count_backlog();
}

// Before the ring is full, what it holds goes.
bool TcpSender::may_hold(std::size_t bytes) {
  if (++counters_.sent_in_a_row <= held_from) return false;
  const auto before = std::exchange(last_, Clock::now());
  if (bytes > longest_held || last_ - before >= late_.times().recent) return false;
  if (!holds_) return !backlogged_ && late_.hold(*this);
  return held_bytes_ + header_of(bytes) + bytes <= held_most && has_slot(end_ + 1);
}

void TcpSender::let_go() noexcept {
  if (holds_) late_.release(*this);
  holds_ = false;
  held_bytes_ = 0;
}

// What is held back stays with LateFlush until the kernel has all of it: the calls that sent it are over, and
// nobody may come here again.
void TcpSender::write() {
  for (auto& stream : streams_) write(stream);
  count_backlog();
  if (!backlogged_) let_go();
}

void TcpSender::write(Stream& stream) {
  while (stream.next < end_) {
    Gather gather;
    for (auto message = stream.next; message < end_ && gather.count + 2 <= gather.parts.size();
         message += streams_.size()) {
      const Entry& e = entry(message);
      const std::size_t header = std::min(e.written, e.header());
      gather.add(reinterpret_cast<const std::byte*>(&e.frame) + header, e.header() - header);
      const std::size_t payload = e.written - header;
      gather.add(e.data + payload, e.frame.bytes - payload);
    }
    const auto written = send_parts(stream.fd, std::span(gather.parts).first(gather.count));
    if (written < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      throw_failed(name_, errno);
    }
    counters_.moved.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
    advance(stream, static_cast<std::size_t>(written));
    if (static_cast<std::size_t>(written) < gather.bytes) return;
  }
}

void TcpSender::advance(Stream& stream, std::size_t written) {
  while (written > 0) {
    Entry& e = entry(stream.next);
    const std::size_t part = std::min(written, e.total() - e.written);
    e.written += part;
    written -= part;
    if (e.written == e.total()) stream.next += streams_.size();
  }
}

void TcpSender::count_backlog() {
  const bool now = std::ranges::any_of(streams_, [this](const Stream& s) { return s.next < end_; });
  if (now == backlogged_) return;
  backlogged_ = now;
  counters_.backlogged += now ? 1 : -1;
}

void TcpSender::progress() {
  if (!backlogged_) return;
  const auto locked = late_.lock();
  if (backlogged_) write();
}

std::uint64_t TcpSender::taken() const {
  std::uint64_t all = 0;
  for (const auto& stream : streams_) all += stream.next;
  return all;
}

void TcpSender::flush_held(std::vector<pollfd>& blocked) noexcept {
  if (!holds_) return;
  try {
    for (auto& stream : streams_) write(stream);
    count_backlog();
    if (backlogged_) return append_waits(blocked);
  } catch (const std::exception&) {
  }
  holds_ = false;
  held_bytes_ = 0;
}

void TcpSender::add_waits(std::vector<pollfd>& waits) {
  if (!backlogged_) return;
  const auto locked = late_.lock();
  append_waits(waits);
}

void TcpSender::append_waits(std::vector<pollfd>& waits) const {
  for (const auto& stream : streams_)
    if (stream.next < end_) waits.push_back({stream.fd, POLLOUT, 0});
}

bool TcpSender::try_finish() noexcept {
  if (finished_) return true;
  const auto locked = late_.lock();
  try {
    if (backlogged_ && !reads_caller_memory()) {
      write();
      if (backlogged_) return false;
    }
  } catch (const std::exception&) {
    // The peer is gone, and what was queued with it.
  }
  finished_ = true;
  if (backlogged_) return true;
  for (const auto& stream : streams_) {
    ::shutdown(stream.fd, SHUT_WR);
    if (has_input(stream.fd) && awaits_acknowledgement(stream.fd)) finished_ = false;
  }
  return finished_;
}

void finish(std::span<const std::unique_ptr<TcpSender>> senders, const Deadline& deadline) noexcept {
  const auto over = [&] {
    bool all = true;
    for (const auto& sender : senders)
      if (sender && !sender->try_finish()) all = false;
    return all;
  };
  constexpr int nap_ms = 1;  // nothing announces an acknowledgement
  while (!over() && !deadline.passed()) ::poll(nullptr, 0, nap_ms);
}

}  // namespace tutti::transport::tcp
