/// \file
/// Messages on their way in a proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/verify/memory.hpp"

namespace tutti::proof {

/// What one step sends, to however many peers.
struct Payload {
  std::vector<Value> values;
  Event sent;
  std::shared_ptr<const Clock> clock;  ///< the sender's
  bool view = false;                   ///< read from the sender's memory when it is received
  std::size_t cell = 0;
};

/// One ordered way from a lane of one rank to a lane of another.
struct Fifo {
  int sender = -1;    ///< lane (numbered through), -1 before its first use
  int receiver = -1;  ///< likewise
  std::vector<std::shared_ptr<const Payload>> messages;
  std::size_t head = 0;  ///< those before it have been received

  [[nodiscard]] std::size_t in_flight() const { return messages.size() - head; }
  [[nodiscard]] const Payload& front() const { return *messages[head]; }
  void pop() {
    messages[head++].reset();
    if (in_flight() > 0) return;
    messages.clear();
    head = 0;
  }
};

using Fifos = std::unordered_map<std::uint64_t, Fifo>;  // by fifo_key

}  // namespace tutti::proof
