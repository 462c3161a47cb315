/// \file
/// The two ends of a FIFO under random use: every way to send, every way to receive, every byte compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rig.hpp"

namespace tutti::transport::testing {

/// The messages of one FIFO, known to both ends: message k has `sizes[k]` bytes, content and tag made from
/// `seed` and k.
struct Script {
  std::uint64_t seed = 0;
  std::vector<std::size_t> sizes;
  bool views = true;  ///< may be reserved and acquired: all channels but `message_channel`
  [[nodiscard]] std::uint64_t content(std::size_t k) const { return seed * 1'000'003 + k; }
  [[nodiscard]] Tag tag(std::size_t k) const { return static_cast<Tag>(seed * 65'537 + k); }
};

/// `count` sizes up to `max`: half of them small, some zero, some exactly `max`.
std::vector<std::size_t> random_sizes(std::uint64_t seed, std::size_t count, std::size_t max);

/// Sends a script, by reserve and publish, stable or not, chosen at random. Overwrites its memory as soon as
/// it may.
class Feeder {
 public:
  Feeder(Sender& sender, const Script& script);
  /// One attempt, or none: it is sometimes lazy. True when all is sent and flushed.
  bool step();

 private:
  bool send_reserved(std::size_t k);
  bool send_unstable(std::size_t k);
  bool send_stable(std::size_t k);

  Sender& sender_;
  const Script& script_;
  Random random_;
  std::size_t next_ = 0;
  std::vector<std::byte> buffer_;
  bool prepared_ = false;                     ///< the next message is filled in already
  std::vector<std::byte> next_lent_;          ///< the next message, if stable
  std::vector<std::vector<std::byte>> lent_;  ///< stable until flushed
  /// Scribbled over, but not freed: a transport that still reads it is to fail by what it sends.
  std::vector<std::vector<std::byte>> returned_;
};

/// Receives a script, by acquire and release or straight into place, and compares.
class Taker {
 public:
  Taker(Receiver& receiver, const Script& script, std::string name);
  bool step();

 private:
  bool take_view(std::size_t k);
  bool take_in_place(std::size_t k);

  Receiver& receiver_;
  const Script& script_;
  std::string name_;
  Random random_;
  std::size_t next_ = 0;
  const std::byte* view_ = nullptr;  ///< acquired and not released yet
  std::vector<std::byte> buffer_;
};

}  // namespace tutti::transport::testing
