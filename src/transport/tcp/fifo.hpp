/// \file
/// What both ends of a FIFO need: whom it leads to, what is counted, where bytes are staged.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include <tutti/types.hpp>

#include "transport/tcp/frame.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::tcp {

/// The other end, as messages name it.
struct FifoName {
  Rank peer = -1;  ///< in the communicator
  int channel = 0;
};

/// Throws Error(peer_lost) that names the peer. `cause`: "closed its connection", or the text of an errno.
[[noreturn]] void throw_lost(const FifoName& name, const std::string& cause);

/// Shared by all FIFOs of a transport.
struct Counters {
  Traffic traffic;
  int backlogged = 0;  ///< senders with queued messages; while 0, progress has nothing to do
  /// To anybody, since one came from anybody or this rank waited. The root of a stream of calls only sends,
  /// and nobody's answer waits for that.
  unsigned sent_in_a_row = 0;
};

/// Room for one message, aligned to a cache line. Its pages take memory once they are touched.
struct StagingDelete {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Staging = std::unique_ptr<std::byte, StagingDelete>;

/// Allocates on first use only.
inline std::byte* ensure(Staging& staging, Counters& counters) {
  if (!staging) {
    staging.reset(static_cast<std::byte*>(::operator new (max_message, std::align_val_t{64})));
    counters.traffic.memory_held += max_message;
  }
  return staging.get();
}

}  // namespace tutti::transport::tcp
