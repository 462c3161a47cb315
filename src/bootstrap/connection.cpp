#include "bootstrap/connection.hpp"

#include <cstring>
#include <utility>

#include "bootstrap/socket.hpp"
#include "bootstrap/wire.hpp"

namespace tutti::bootstrap {
namespace {

/// Unread bytes, beyond one all_gather result, after which a peer counts as lost.
constexpr std::size_t most_queued = std::size_t{4} << 20;
constexpr int most_reads = 256;  ///< of 16 KiB, in one `receive`

}  // namespace

Connection::Connection(FileDescriptor socket, std::size_t largest_incoming, std::size_t largest_outgoing)
    : socket_(std::move(socket)), largest_incoming_(largest_incoming), largest_outgoing_(largest_outgoing) {}

bool Connection::receive(const Take& take) {
  std::array<std::byte, 16 << 10> piece;
  for (int i = 0; i < most_reads && !input_broken_; ++i) {
    const auto received = receive_some(fd(), piece);
    if (received && *received == 0) break;
    input_broken_ = !received;
    input_.insert(input_.end(), piece.begin(),
                  piece.begin() + static_cast<std::ptrdiff_t>(received.value_or(0)));
    if (!parse(take)) input_broken_ = true;
  }
  return !input_broken_;
}

bool Connection::parse(const Take& take) {
  std::size_t at = 0;
  bool sound = true;
  while (sound && input_.size() - at >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, input_.data() + at, sizeof header);
    const bool data = header.kind == FrameKind::gathered || header.kind == FrameKind::contribute;
    sound = header.payload <= (data ? largest_incoming_ : largest_small_payload);
    if (!sound || input_.size() - at - sizeof header < header.payload) break;
    try {
      take(header.kind, std::span(input_).subspan(at + sizeof header, header.payload));
    } catch (const Malformed&) {
      sound = false;
    }
    at += sizeof header + header.payload;
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(at));
  return sound;
}

bool Connection::send(Frame frame) {
  if (output_broken_ || queued_bytes_ > largest_outgoing_ + most_queued) return false;
  queued_bytes_ += frame->size();
  queue_.push_back(std::move(frame));
  return true;
}

bool Connection::flush() {
  while (!queue_.empty() && !output_broken_) {
    const auto& front = *queue_.front();
    const auto sent = send_some(fd(), std::span(front).subspan(sent_of_front_));
    if (!sent) output_broken_ = true;
    if (!sent || *sent == 0) break;
    sent_of_front_ += *sent;
    queued_bytes_ -= *sent;
    if (sent_of_front_ < front.size()) continue;
    queue_.pop_front();
    sent_of_front_ = 0;
  }
  if (output_broken_) queue_.clear();
  return !output_broken_;
}

}  // namespace tutti::bootstrap
