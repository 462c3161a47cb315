/// \file
/// The connection beside the queue pairs: small structs over an authenticated socket, which also tells when
/// the peer is gone. Nothing here blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/fork_guard.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

class Control {
 public:
  Control() = default;
  explicit Control(PrivateDescriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool closed() const { return closed_; }
  /// Something waits for the socket to become writable.
  [[nodiscard]] bool backlogged() const { return !out_.empty(); }

  template <class T>
  void send(ControlKind kind, const T& value) {
    put(kind, std::as_bytes(std::span(&value, 1)));
  }
  /// Reads and writes what it can, then calls `take(kind, bytes)` for each whole message. Sets `closed` when
  /// the peer has closed, the connection broke, or what comes is no message of this version.
  template <class Take>
  void advance(Take take) {
    read();
    while (const auto frame = next()) {
      take(frame->kind, std::span<const std::byte>(in_).subspan(sizeof(Frame), frame->bytes));
      in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(sizeof(Frame) + frame->bytes));
    }
    write();
  }

 private:
  struct Frame {
    ControlKind kind{};
    std::uint32_t bytes = 0;
  };
  static constexpr std::uint32_t longest = 4096;
  void put(ControlKind kind, std::span<const std::byte> value);
  void read();
  void write();
  /// Of the first message that is here in whole.
  std::optional<Frame> next();

  PrivateDescriptor socket_;
  std::vector<std::byte> in_, out_;
  bool closed_ = false;
};

}  // namespace tutti::transport::verbs
