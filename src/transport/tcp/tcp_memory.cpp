#include "transport/tcp/tcp_memory.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include <tutti/error.hpp>

#include "base/timespec.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

namespace {

constexpr std::size_t gathered = 32;  ///< parts of one system call

}  // namespace

TcpMemory::TcpMemory(Rank me, std::byte* mine, Rank target, std::function<PrivateDescriptor()> connect,
                     std::string what)
    : me_(me), mine_(mine), target_(target), connect_(std::move(connect)), what_(std::move(what)) {}

void TcpMemory::lost(const std::string& cause) const {
  throw Error(ErrorCode::peer_lost,
              fmt::format("rank {} {}: it destroyed its window, or died; look at its own error first",
                          target_, cause),
              {target_});
}

void TcpMemory::check_mine(int why) const {
  if (why != EFAULT) return;
  throw Error(ErrorCode::system,
              fmt::format("{}; the memory of this rank's window is no longer mapped, or read-only, or of a "
                          "file that has become shorter",
                          std::generic_category().message(why)),
              {me_});
}

void TcpMemory::start(const WindowFrame& frame, const std::byte* payload, std::size_t bytes,
                      std::vector<std::byte> copy) {
  if (!socket_) socket_ = connect_();
  out_.push_back({.frame = frame, .payload = payload, .bytes = bytes, .copy = std::move(copy)});
  ++started_;
}

void TcpMemory::put(std::span<const Block> blocks) {
  for (const Block& block : blocks)
    start({.kind = WindowKind::put, .a = block.remote, .b = block.bytes}, mine_ + block.local, block.bytes);
  write();
}

void TcpMemory::get(std::span<const Block> blocks) {
  for (const Block& block : blocks) {
    start({.kind = WindowKind::get, .a = block.remote, .b = block.bytes}, nullptr, 0);
    awaited_.push_back({mine_ + block.local, block.bytes});
  }
  write();
}

void TcpMemory::notify(std::uint32_t id) {
  start({.kind = WindowKind::notify, .a = id}, nullptr, 0);
  write();
}

void TcpMemory::fetch_add(std::size_t offset, std::uint64_t value, std::uint64_t* before) {
  start({.kind = WindowKind::fetch_add, .a = offset, .b = value}, nullptr, 0);
  awaited_.push_back({reinterpret_cast<std::byte*>(before), sizeof *before});
  write();
}

void TcpMemory::compare_swap(std::size_t offset, std::uint64_t expected, std::uint64_t desired,
                             std::uint64_t* before) {
  start({.kind = WindowKind::compare_swap, .a = offset, .b = expected, .c = desired}, nullptr, 0);
  awaited_.push_back({reinterpret_cast<std::byte*>(before), sizeof *before});
  write();
}

std::vector<std::byte> TcpMemory::ask(std::span<const std::byte> question, const bootstrap::Limit& limit) {
  std::vector<std::byte> copy(question.begin(), question.end());  // it may wait for longer than the caller
  const std::byte* const payload = copy.data();
  answer_.reserve(longest_question);  // what has come must find room
  start({.kind = WindowKind::ask, .b = question.size()}, payload, question.size(), std::move(copy));
  while (done() < started_) {
    if (limit.check) limit.check();
    if (limit.deadline.passed())
      throw Error(ErrorCode::timeout, fmt::format("rank {} did not answer", target_), {target_});
    wait(std::chrono::milliseconds(std::clamp(limit.deadline.poll_ms(), 1, 50)));
  }
  if (refused_)
    throw Error(*refused_,
                fmt::format("rank {} refuses: {}", target_,
                            std::string_view(reinterpret_cast<const char*>(answer_.data()), answer_.size())),
                {target_});
  return std::move(answer_);
}

void TcpMemory::write() {
  while (!out_.empty()) {
    std::array<iovec, gathered> parts{};
    std::size_t count = 0;
    std::size_t skip = written_;
    const auto add = [&](const void* data, std::size_t bytes) {
      const std::size_t done = std::min(skip, bytes);
      skip -= done;
      if (bytes > done)
        parts.at(count++) = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + done,
                             bytes - done};
    };
    for (auto it = out_.begin(); it != out_.end() && count + 2 <= parts.size(); ++it) {
      add(&it->frame, sizeof it->frame);
      add(it->payload, it->bytes);
    }
    const auto sent = send_parts(socket_.get(), std::span(parts).first(count));
    if (sent < 0) {
      const int why = errno;
      if (why == EAGAIN || why == EWOULDBLOCK) return;
      read();  // what was done before is known
      check_mine(why);
      lost("closed the connection (" + std::generic_category().message(why) + ")");
    }
    written_ += static_cast<std::size_t>(sent);
    while (!out_.empty() && written_ >= sizeof(WindowFrame) + out_.front().bytes) {
      written_ -= sizeof(WindowFrame) + out_.front().bytes;
      out_.pop_front();
    }
  }
}

void TcpMemory::take(const WindowFrame& frame) {
  const auto violated = [this] {
    throw Error(
        ErrorCode::system,
        fmt::format("the window of rank {} answers what was not asked; run the same build of tutti on all "
                    "hosts",
                    target_),
        {target_});
  };
  if (frame.magic != WindowFrame::expected_magic || frame.number <= done_ || frame.number > started_)
    violated();
  const auto expect = [&](std::byte* into) {
    payload_ = into;
    payload_left_ = frame.b;
  };
  switch (frame.kind) {
    case WindowKind::done:
      break;
    case WindowKind::data:
      if (awaited_.empty() || awaited_.front().bytes != frame.b) violated();
      expect(awaited_.front().into);
      awaited_.pop_front();
      break;
    case WindowKind::value:
      if (awaited_.empty() || awaited_.front().bytes != sizeof frame.a) violated();
      std::memcpy(awaited_.front().into, &frame.a, sizeof frame.a);
      awaited_.pop_front();
      break;
    case WindowKind::answer:
    case WindowKind::refused:
      if (frame.b > longest_question || frame.a > static_cast<std::uint64_t>(ErrorCode::forked)) violated();
      refused_.reset();
      if (frame.kind == WindowKind::refused) refused_ = static_cast<ErrorCode>(frame.a);
      answer_.resize(frame.b);
      expect(answer_.data());
      break;
    default:
      violated();
  }
  // Not done before the last byte is here.
  done_ = payload_left_ > 0 ? frame.number - 1 : frame.number;
}

// False when nothing has come.
bool TcpMemory::read_some() {
  const bool head = payload_left_ == 0;
  const auto into = head ? std::as_writable_bytes(std::span(&head_, 1)).subspan(head_got_)
                         : std::span(payload_, payload_left_);
  errno = 0;  // stays so where the connection was closed in order
  const auto got = bootstrap::receive_some(socket_.get(), into);
  if (!got) {
    check_mine(errno);
    lost("closed the connection");
  }
  if (*got == 0) return false;
  if (head) {
    head_got_ += *got;
    if (head_got_ < sizeof head_) return true;
    head_got_ = 0;
    take(head_);
    return true;
  }
  payload_ += *got;
  payload_left_ -= *got;
  if (payload_left_ == 0) done_ = head_.number;
  return true;
}

void TcpMemory::read() {
  while (socket_ && read_some()) {
  }
}

std::uint64_t TcpMemory::done() {
  if (done_ == started_) return done_;
  if (!out_.empty()) write();
  // No further: whoever has answered everything may leave.
  while (socket_ && done_ < started_ && read_some()) {
  }
  return done_;
}

void TcpMemory::wait(std::chrono::microseconds longest) {
  pollfd one{socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  const timespec limit = timespec_of(longest);
  ::ppoll(&one, 1, &limit, nullptr);
}

}  // namespace tutti::transport::tcp
