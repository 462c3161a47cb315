/// \file
/// One peer's part of a Proxy: all FIFOs of the pair, or a share of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/device/mailbox.hpp"
#include "gpu/proxy.hpp"
#include "transport/transport.hpp"

namespace tutti::gpu {

/// Carriers of a pair whose messages are in device memory. Each has a channel of the transport, which may
/// lead over an adapter of its own.
inline constexpr int direct_carriers = 4;

/// What announces bytes, or says that some were taken. Sent as bytes.
struct Frame {
  enum class Kind : std::uint8_t { message, taken, call };
  Kind kind = Kind::message;
  std::uint8_t channel = 0;
  std::uint16_t slice = 0;
  std::uint32_t bytes = 0;   ///< of a message; they follow, unless they were placed
  std::uint64_t number = 0;  ///< of the message, from 0, or of the call; or how many were taken
  std::uint64_t flag = 0;    ///< of a message or call, as its sender wrote it
};
static_assert(sizeof(Frame) == 24);

class Proxy::Carrier {
 public:
  /// Connects by channel `which` of the transport, and takes every `all`-th FIFO from that on; may block for
  /// a while. Throws Error.
  Carrier(transport::Transport& transport, const Device& device, const device::Mailbox& layout,
          const Line& line, int which, int all);
  /// Nothing blocks. True when something moved. Throws Error(peer_lost, system, mismatch).
  bool send();
  bool receive();
  [[nodiscard]] Rank peer() const { return line_.peer; }

 private:
  /// Of a channel and slice, in one direction.
  struct Counts {
    std::uint64_t messages = 0;  ///< sent
    std::uint64_t taken = 0;     ///< what the peer was told
  };
  /// A message under way.
  struct Parcel {
    Frame frame;
    bool announced = false;
    std::size_t moved = 0;  ///< bytes
  };
  [[nodiscard]] std::optional<Frame> next();
  [[nodiscard]] std::optional<Frame> next_call();
  [[nodiscard]] std::size_t part(const Parcel& parcel) const;
  bool announce(Parcel& parcel);
  void check(const Frame& frame) const;
  void deliver(const Frame& frame) const;

  const Device& device_;
  const device::Mailbox layout_;
  const Line line_;
  const std::size_t which_, all_;
  const std::size_t longest_;
  std::shared_ptr<void> registered_;  ///< the outbox, with the transport's devices
  transport::Sender& sender_;
  transport::Receiver& receiver_;
  std::vector<Counts> counts_;  ///< of its FIFOs, which are numbered by channel and slice
  std::uint64_t calls_ = 0;     ///< the last one that the peer was told of
  std::size_t turn_ = 0;
  std::optional<Parcel> out_, in_;
};

}  // namespace tutti::gpu
