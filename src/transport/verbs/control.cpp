#include "transport/verbs/control.hpp"

#include <array>
#include <cstring>

#include "bootstrap/socket.hpp"

namespace tutti::transport::verbs {

void Control::put(ControlKind kind, std::span<const std::byte> value) {
  const Frame frame{kind, static_cast<std::uint32_t>(value.size())};
  const auto head = std::as_bytes(std::span(&frame, 1));
  out_.insert(out_.end(), head.begin(), head.end());
  out_.insert(out_.end(), value.begin(), value.end());
  write();
}

void Control::write() {
  while (!out_.empty() && !closed_) {
    const auto sent = bootstrap::send_some(socket_.get(), out_);
    if (!sent) out_.clear();  // it is closed: `read` finds that, after what the peer had still to say
    if (!sent || *sent == 0) return;
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(*sent));
  }
}

void Control::read() {
  std::array<std::byte, longest> chunk{};
  while (!closed_) {
    const auto got = bootstrap::receive_some(socket_.get(), chunk);
    if (!got) closed_ = true;
    if (!got || *got == 0) return;
    in_.insert(in_.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(*got));
  }
}

std::optional<Control::Frame> Control::next() {
  Frame frame;
  if (in_.size() < sizeof frame) return std::nullopt;
  std::memcpy(&frame, in_.data(), sizeof frame);
  if (frame.bytes > longest) {
    closed_ = true;
    return std::nullopt;
  }
  if (in_.size() < sizeof frame + frame.bytes) return std::nullopt;
  return frame;
}

}  // namespace tutti::transport::verbs
