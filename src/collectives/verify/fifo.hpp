/// \file
/// Messages on their way in a proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/verify/memory.hpp"

namespace tutti::proof {

/// A clock that a lane and what it has sent share. They are counted, for they are most of what a proof keeps:
/// each message that is under way may have another one, with an entry for every lane.
struct SharedClock {
  Clock steps;

  /// `kept`: entries of all that there are; outlives it.
  SharedClock(Clock of, std::size_t& kept) : steps(std::move(of)), kept_(kept) { kept_ += steps.size(); }
  ~SharedClock() { kept_ -= steps.size(); }
  SharedClock(const SharedClock&) = delete;
  SharedClock& operator=(const SharedClock&) = delete;

 private:
  std::size_t& kept_;
};

/// What one step sends, to however many peers.
struct Payload {
  std::vector<Value> values;
  Event sent;
  std::shared_ptr<const SharedClock> clock;  ///< the sender's
  bool view = false;                         ///< read from the sender's memory when it is received
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
