/// \file
/// The owner's side of a window over TCP: one connection of a peer, and what it asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/types.hpp>

#include "base/fork_guard.hpp"
#include "transport/tcp/window_frame.hpp"

namespace tutti::transport::tcp {

/// Bytes that one peer may move before the others have their turn.
inline constexpr std::size_t default_turn = std::size_t{4} << 20;

/// What a server serves. Called on its thread.
struct Served {
  std::span<std::byte> memory;
  /// Counts a notification: number, source. The number was checked.
  std::function<void(std::uint32_t, Rank)> notify;
  std::uint32_t notifications = 0;
  /// Another transport's question, of a rank; may be empty. Throws Error: the rank that asks throws it, too.
  std::function<std::vector<std::byte>(Rank, std::span<const std::byte>)> ask;
  std::string congestion;  ///< of connections: see data_socket.hpp
  std::size_t turn_bytes = default_turn;
};

/// A state machine over a non-blocking socket. A peer that asks for what is not there, or stops reading its
/// answers, harms only its own connection.
class ServedConnection {
 public:
  ServedConnection(Rank peer, PrivateDescriptor socket, const Served& served);
  /// Moves a bounded amount, so that one peer cannot keep the server. False once the connection is over.
  bool advance();
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// What poll(2) should wait for; 0 when there is more to do at once.
  [[nodiscard]] short events() const;

 private:
  enum class Flow : std::uint8_t { moved, blocked, over };
  Flow read();
  Flow write();
  void take_payload();
  void answer_question();
  bool begin(const WindowFrame& frame);
  void answer(WindowFrame frame, const std::byte* payload, std::size_t bytes);
  [[nodiscard]] std::byte* word(std::uint64_t offset) const;
  [[nodiscard]] bool within(std::uint64_t offset, std::uint64_t bytes) const;

  Rank peer_;
  PrivateDescriptor socket_;
  const Served& served_;

  std::vector<std::byte> input_;  ///< what was read and not used: [used_, filled_)
  std::size_t used_ = 0, filled_ = 0;
  std::byte* payload_ = nullptr;  ///< where the rest of the current payload goes
  std::size_t payload_left_ = 0;
  std::vector<std::byte> question_;
  bool asking_ = false;

  std::vector<std::byte> heads_;  ///< frames to be sent; before `tail_`
  std::size_t heads_sent_ = 0;
  const std::byte* tail_ = nullptr;  ///< the payload of the last one; nothing is read before it has gone
  std::size_t tail_left_ = 0;
  std::vector<std::byte> tail_copy_;
  std::uint64_t finished_ = 0, told_ = 0;  ///< operations
  std::size_t moved_ = 0;                  ///< bytes of this turn, both ways
  bool more_ = false;
};

}  // namespace tutti::transport::tcp
