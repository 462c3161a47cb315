/// \file
/// Sleeping on several transports at once.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport {

/// On one, it is that one's own way to sleep.
class Sleep {
 public:
  explicit Sleep(std::vector<Transport*> on = {}) : on_(std::move(on)) {}
  /// As those of `Transport`.
  void prepare();
  void cancel();
  void wait(std::chrono::microseconds longest);
  [[nodiscard]] bool backlogged() const;

 private:
  std::vector<Transport*> on_;
  std::vector<std::size_t> ends_;  ///< of what each of them waits for, in `waits_`
  std::vector<pollfd> waits_;      ///< kept for its capacity
};

}  // namespace tutti::transport
