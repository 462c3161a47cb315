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
  if (!input_broken_ && !parse(take)) input_broken_ = true;  // what there was no memory to take before
  for (int i = 0; i < most_reads && !input_broken_; ++i) {
    const auto received = receive_some(fd(), piece);
    if (received && *received == 0) break;
    input_broken_ = true;  // unless there is room for what has come
    input_.insert(input_.end(), piece.begin(),
                  piece.begin() + static_cast<std::ptrdiff_t>(received.value_or(0)));
    input_broken_ = !received;
    if (!parse(take)) input_broken_ = true;
  }
  return !input_broken_;
}

bool Connection::parse(const Take& take) {
  struct Taken {
    Bytes& input;
    std::size_t bytes = 0;
    ~Taken() { input.erase(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(bytes)); }
  } taken{input_};  // does not come again, whatever `take` throws
  bool sound = true;
  while (sound && input_.size() - taken.bytes >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, input_.data() + taken.bytes, sizeof header);
    const bool data = header.kind == FrameKind::gathered || header.kind == FrameKind::contribute;
    sound = header.payload <= (data ? largest_incoming_ : largest_small_payload);
    if (!sound || input_.size() - taken.bytes - sizeof header < header.payload) break;
    try {
      take(header.kind, std::span(input_).subspan(taken.bytes + sizeof header, header.payload));
    } catch (const Malformed&) {
      sound = false;
    }
    taken.bytes += sizeof header + header.payload;
  }
  return sound;
}

bool Connection::send(Frame frame) {
  if (output_broken_ || queued_bytes_ > largest_outgoing_ + most_queued) return false;
  queue_.push_back(std::move(frame));
  queued_bytes_ += queue_.back()->size();
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
