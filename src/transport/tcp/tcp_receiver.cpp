#include "transport/tcp/tcp_receiver.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

#include <tutti/error.hpp>

#include "base/uninterrupted.hpp"
#include "kernels/fold.hpp"

namespace tutti::transport::tcp {

TcpReceiver::TcpReceiver(const FifoName& name, Rank world, std::shared_ptr<Streams> streams, Inbox& inbox,
                         Counters& counters)
    : name_(name), world_(world), inbox_(inbox), counters_(counters), streams_(std::move(streams)) {}

const std::byte* TcpReceiver::try_acquire(std::size_t bytes, Tag tag) {
  assert(bytes <= max_message);
  if (acquired_) return place_;
  const std::byte* const before = staging_.get();
  std::byte* const room = staging_.ensure(bytes, counters_);
  if (place_ == before) place_ = room;  // a message begun there, of which another call expected less
  acquired_ = read(room, bytes, tag);
  return acquired_ ? place_ : nullptr;
}

void TcpReceiver::release() {
  assert(acquired_);
  acquired_ = false;
  finish();
}

bool TcpReceiver::try_receive(std::byte* into, std::size_t bytes, Tag tag) {
  assert(!acquired_);
  if (!read(into, bytes, tag)) return false;
  if (place_ != into && bytes > 0) {  // begun by try_acquire
    kernels::copy_block(into, place_, bytes);
    counters_.traffic.bytes_copied += bytes;
  }
  finish();
  return true;
}

void TcpReceiver::finish() {
  ++counters_.traffic.messages_received;
  counters_.traffic.bytes_received += frame_.bytes;
  counters_.sent_in_a_row = 0;
  got_ = 0;
  ++next_;
}

bool TcpReceiver::connect() {
  if (current() >= 0) return true;
  const auto filed = inbox_.filed();
  if (filed == inbox_seen_) return false;
  inbox_seen_ = filed;
  for (std::size_t s = 0; s < streams_->size(); ++s) {
    if (streams_->connected(s)) continue;
    if (auto socket = inbox_.take(world_, name_.channel, static_cast<int>(s)))
      streams_->connect(s, std::move(socket));
  }
  return current() >= 0;
}

bool TcpReceiver::read(std::byte* into, std::size_t bytes, Tag tag) {
  waiting_ = true;
  if (!connect()) return false;
  if (got_ == 0) place_ = into;
  const std::size_t whole = header_of(bytes);
  while (!complete(bytes, tag)) {
    const std::size_t header = std::min(got_, whole);
    const std::size_t payload = got_ - header;
    std::array<iovec, 2> parts{{{reinterpret_cast<std::byte*>(&frame_) + header, whole - header},
                                {place_ + payload, bytes - payload}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const auto got = uninterrupted([&] { return ::recvmsg(current(), &message, MSG_DONTWAIT); });
    if (got == 0) throw_lost(name_, "it closed the connection");
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
      throw_failed(name_, errno);
    }
    got_ += static_cast<std::size_t>(got);
    counters_.moved.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  }
  waiting_ = false;
  return true;
}

bool TcpReceiver::complete(std::size_t bytes, Tag tag) const {
  if (got_ < frame_content) return false;
  if (frame_.magic != Frame::expected_magic || frame_.sequence != static_cast<std::uint32_t>(next_))
    throw Error(
        ErrorCode::system,
        fmt::format(
            "rank {} sends on tcp channel {} what is no message of this version of tutti and this byte "
            "order; run the same build on all hosts",
            name_.peer, name_.channel),
        {name_.peer});
  if (frame_.tag != tag || frame_.bytes != bytes) throw Mismatch{tag, frame_.tag};
  return got_ == header_of(bytes) + bytes;
}

}  // namespace tutti::transport::tcp
