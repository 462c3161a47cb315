/// \file
/// The memory of a target, through the server of its window. Also the way of all questions to that server.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "base/fork_guard.hpp"
#include "bootstrap/socket.hpp"
#include "transport/remote_memory.hpp"
#include "transport/tcp/window_frame.hpp"

namespace tutti::transport::tcp {

class TcpMemory final : public RemoteMemory {
 public:
  /// `connect`: makes an authenticated connection to the target's server; called once, on first use. `what`:
  /// for `explain`. `mine`: the memory of rank `me`.
  TcpMemory(Rank me, std::byte* mine, Rank target, std::function<PrivateDescriptor()> connect,
            std::string what);

  [[nodiscard]] std::string explain() const override { return what_; }
  void put(std::span<const Block> blocks) override;
  void get(std::span<const Block> blocks) override;
  void notify(std::uint32_t id) override;
  [[nodiscard]] bool has_atomics() const override { return true; }
  void fetch_add(std::size_t offset, std::uint64_t value, std::uint64_t* before) override;
  void compare_swap(std::size_t offset, std::uint64_t expected, std::uint64_t desired,
                    std::uint64_t* before) override;
  [[nodiscard]] std::uint64_t started() const override { return started_; }
  std::uint64_t done() override;
  [[nodiscard]] std::uint64_t known_done() const override { return done_; }
  void wait(std::chrono::microseconds longest) override;

  /// Asks the server what another transport wants to know. Blocking. Throws Error(timeout, peer_lost), what
  /// the target threw instead of an answer, and what the limit's check throws.
  std::vector<std::byte> ask(std::span<const std::byte> question, const bootstrap::Limit& limit);
  /// Throws Error(peer_lost) if the target has closed the connection. A system call.
  void check() { read(); }

 private:
  struct Outgoing {
    WindowFrame frame;
    const std::byte* payload = nullptr;
    std::size_t bytes = 0;
    std::vector<std::byte> copy{};  ///< of a payload that may not stay
  };
  struct Awaited {
    std::byte* into = nullptr;  ///< of a get, or of the value of an atomic
    std::size_t bytes = 0;
  };
  void start(const WindowFrame& frame, const std::byte* payload, std::size_t bytes,
             std::vector<std::byte> copy = {});
  void write();
  void read();
  bool read_some();
  void take(const WindowFrame& frame);
  [[noreturn]] void lost(const std::string& cause) const;
  /// Of what a system call on the connection failed with, an errno: returns unless that is this rank's own
  /// memory.
  void check_mine(int why) const;

  Rank me_;
  std::byte* mine_;
  Rank target_;
  std::function<PrivateDescriptor()> connect_;
  std::string what_;
  PrivateDescriptor socket_;
  std::uint64_t started_ = 0, done_ = 0;

  std::deque<Outgoing> out_;
  std::size_t written_ = 0;  ///< of the first, head and payload
  std::deque<Awaited> awaited_;
  WindowFrame head_;
  std::size_t head_got_ = 0;
  std::byte* payload_ = nullptr;
  std::size_t payload_left_ = 0;
  std::vector<std::byte> answer_;
  std::optional<ErrorCode> refused_;  ///< `answer_` is the text of this error
};

}  // namespace tutti::transport::tcp
