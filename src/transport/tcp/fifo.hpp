/// \file
/// What both ends of a FIFO need: whom it leads to, what is counted, where bytes are staged.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <tutti/types.hpp>

#include "transport/tcp/frame.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::tcp {

/// The other end, as messages name it.
struct FifoName {
  Rank peer = -1;  ///< in the communicator
  int channel = 0;
};

/// Throws Error(peer_lost) that names the peer. `cause`: "it closed the connection", or the text of an errno.
[[noreturn]] void throw_lost(const FifoName& name, const std::string& cause);
/// Of what a system call on the connection failed with, an errno: Error(system) where that is this rank's own
/// memory, else as `throw_lost`.
[[noreturn]] void throw_failed(const FifoName& name, int why);

/// Shared by all FIFOs of a transport.
struct Counters {
  Traffic traffic;
  /// Bytes that sockets have taken or given, also of messages that are not complete, with headers.
  std::atomic<std::uint64_t> moved{0};
  std::atomic<int> backlogged{0};  ///< senders with queued messages; while 0, progress has nothing to do
  /// To anybody, since one came from anybody or this rank waited. The root of a stream of calls only sends,
  /// and nobody's answer waits for that.
  unsigned sent_in_a_row = 0;
};

/// Room for one message, aligned to a cache line; it grows.
class Staging {
 public:
  [[nodiscard]] std::byte* get() const { return room_.get(); }
  /// Room for `bytes`, elsewhere where that is more than there was. It keeps what it held.
  std::byte* ensure(std::size_t bytes, Counters& counters) {
    if (bytes <= size_ && room_) return room_.get();
    const std::size_t size = std::bit_ceil(std::max(bytes, least));
    Room larger(static_cast<std::byte*>(::operator new (size, std::align_val_t{64})));
    std::copy_n(room_.get(), size_, larger.get());
    room_ = std::move(larger);
    counters.traffic.memory_held += size - size_;
    size_ = size;
    return room_.get();
  }

 private:
  static constexpr std::size_t least = 4096;
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  using Room = std::unique_ptr<std::byte, Delete>;
  Room room_;
  std::size_t size_ = 0;
};

}  // namespace tutti::transport::tcp
