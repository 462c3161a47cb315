#include "transport/tcp/served_memory.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <tutti/error.hpp>

#include "bootstrap/frame.hpp"
#include "bootstrap/socket.hpp"
#include "kernels/fold.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

namespace {

constexpr std::size_t input_bytes = 16 << 10;
constexpr std::uint64_t tell_every = 64;  ///< operations, at most, before the peer learns that they are done

}  // namespace

ServedConnection::ServedConnection(Rank peer, PrivateDescriptor socket, const Served& served)
    : peer_(peer), socket_(std::move(socket)), served_(served), input_(input_bytes) {}

short ServedConnection::events() const {
  if (heads_sent_ < heads_.size() || tail_left_ > 0) return POLLOUT;
  return more_ ? short{0} : short{POLLIN};
}

bool ServedConnection::within(std::uint64_t offset, std::uint64_t bytes) const {
  return offset <= served_.memory.size() && bytes <= served_.memory.size() - offset;
}

std::byte* ServedConnection::word(std::uint64_t offset) const {
  std::byte* at = served_.memory.data() + offset;
  const bool good =
      within(offset, sizeof offset) && reinterpret_cast<std::uintptr_t>(at) % sizeof offset == 0;
  return good ? at : nullptr;
}

void ServedConnection::answer(WindowFrame frame, const std::byte* payload, std::size_t bytes) {
  frame.number = told_ = finished_;
  frame.b = bytes;
  const auto head = std::as_bytes(std::span(&frame, 1));
  heads_.insert(heads_.end(), head.begin(), head.end());
  tail_ = payload;
  tail_left_ = bytes;
}

// True when the frame makes sense. The peer has checked its arguments, so one that does not is of another
// version, or out to harm.
bool ServedConnection::begin(const WindowFrame& frame) {
  if (frame.magic != WindowFrame::expected_magic) return false;
  switch (frame.kind) {
    case WindowKind::put:
      if (!within(frame.a, frame.b)) return false;
      payload_ = served_.memory.data() + frame.a;
      payload_left_ = frame.b;
      if (frame.b == 0) take_payload();
      return true;
    case WindowKind::get:
      if (!within(frame.a, frame.b)) return false;
      ++finished_;
      answer({.kind = WindowKind::data}, served_.memory.data() + frame.a, frame.b);
      return true;
    case WindowKind::notify:
      if (frame.a >= served_.notifications) return false;
      served_.notify(static_cast<std::uint32_t>(frame.a), peer_);
      ++finished_;
      return true;
    case WindowKind::fetch_add:
    case WindowKind::compare_swap: {
      std::byte* at = word(frame.a);
      if (at == nullptr) return false;
      const std::atomic_ref value(*reinterpret_cast<std::uint64_t*>(at));
      std::uint64_t before = frame.b;
      if (frame.kind == WindowKind::fetch_add)
        before = value.fetch_add(frame.b);
      else
        value.compare_exchange_strong(before, frame.c);
      ++finished_;
      answer({.kind = WindowKind::value, .a = before}, nullptr, 0);
      return true;
    }
    case WindowKind::ask:
      if (frame.b > longest_question || !served_.ask) return false;
      question_.resize(frame.b);
      payload_ = question_.data();
      payload_left_ = frame.b;
      asking_ = true;
      if (frame.b == 0) take_payload();
      return true;
    default:
      return false;
  }
}

// The current payload is complete.
void ServedConnection::take_payload() {
  ++finished_;
  if (std::exchange(asking_, false)) answer_question();
}

void ServedConnection::answer_question() {
  WindowFrame frame{.kind = WindowKind::answer};
  try {
    tail_copy_ = served_.ask(peer_, question_);
  } catch (const Error& error) {
    const auto [code, ranks, text] = bootstrap::to_fault(error);
    const auto words = std::as_bytes(std::span(text)).first(std::min(text.size(), longest_question));
    tail_copy_.assign(words.begin(), words.end());
    frame.kind = WindowKind::refused;
    frame.a = static_cast<std::uint64_t>(code);
  }
  answer(frame, tail_copy_.data(), tail_copy_.size());
}

ServedConnection::Flow ServedConnection::read() {
  const std::size_t ready = filled_ - used_;
  if (payload_left_ > 0) {
    std::size_t taken = std::min(ready, payload_left_);
    if (taken > 0) {
      kernels::copy_block(payload_, input_.data() + used_, taken);
      used_ += taken;
    } else {
      const auto got =
          bootstrap::receive_some(socket_.get(), {payload_, std::min(payload_left_, served_.turn_bytes)});
      if (!got) return Flow::over;
      if (*got == 0) return Flow::blocked;
      taken = *got;
    }
    payload_ += taken;
    payload_left_ -= taken;
    if (payload_left_ == 0) take_payload();
    return Flow::moved;
  }
  if (ready >= sizeof(WindowFrame)) {
    WindowFrame frame;
    std::memcpy(&frame, input_.data() + used_, sizeof frame);
    used_ += sizeof frame;
    return begin(frame) ? Flow::moved : Flow::over;
  }
  std::memmove(input_.data(), input_.data() + used_, ready);
  used_ = 0;
  filled_ = ready;
  const auto got = bootstrap::receive_some(socket_.get(), std::span(input_).subspan(filled_));
  if (!got) return Flow::over;
  filled_ += *got;
  return *got == 0 ? Flow::blocked : Flow::moved;
}

ServedConnection::Flow ServedConnection::write() {
  while (heads_sent_ < heads_.size() || tail_left_ > 0) {
    std::array<iovec, 2> parts{};
    parts[0] = {heads_.data() + heads_sent_, heads_.size() - heads_sent_};
    parts[1] = {const_cast<std::byte*>(tail_), std::min(tail_left_, served_.turn_bytes)};
    const auto sent = send_parts(socket_.get(), parts);
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Flow::blocked : Flow::over;
    const std::size_t of_heads = std::min(static_cast<std::size_t>(sent), parts[0].iov_len);
    heads_sent_ += of_heads;
    tail_ += static_cast<std::size_t>(sent) - of_heads;
    tail_left_ -= static_cast<std::size_t>(sent) - of_heads;
    moved_ += static_cast<std::size_t>(sent);
    if (tail_left_ > 0 && moved_ >= served_.turn_bytes) return Flow::blocked;  // by the others' turn
  }
  heads_.clear();
  heads_sent_ = 0;
  return Flow::moved;
}

bool ServedConnection::advance() {
  more_ = false;
  const std::uint64_t begun = finished_;
  moved_ = 0;
  for (;;) {
    // An answer's payload is the memory itself: nothing later may happen before it has gone.
    if (tail_left_ > 0 || heads_.size() > input_bytes) {
      const Flow flow = write();
      if (flow != Flow::moved) return flow == Flow::blocked;
    }
    const std::size_t before = payload_left_;
    const Flow flow = read();
    if (flow == Flow::over) return false;
    if (before > payload_left_) moved_ += before - payload_left_;
    const bool idle = flow == Flow::blocked;
    more_ = !idle && (moved_ >= served_.turn_bytes || finished_ - begun >= 4 * tell_every);
    if (finished_ > told_ && (idle || more_ || finished_ - told_ >= tell_every))
      answer({.kind = WindowKind::done}, nullptr, 0);
    if (idle || more_) return write() != Flow::over;
  }
}

}  // namespace tutti::transport::tcp
