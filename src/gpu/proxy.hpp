/// \file
/// Carries what is in mailboxes over the network: a thread beside the kernels of a rank that talks to ranks
/// on other hosts.
///
/// It knows nothing of programs. A message that a kernel has put into a slot of an outbox goes out as a Frame
/// and its bytes, and into the slot of the same number in the peer's inbox; that a kernel has taken a message
/// goes out as a Frame. A slot is used anew only when the peer has taken what was in it, so whatever arrives
/// has room, no FIFO holds up another one, and nothing is copied on the way to a transport that sends from
/// registered memory. Bytes in slots in device memory are placed by adapters, before their Frame. Graphs are
/// replayed without the host saying so: only the numbers in mailboxes count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "gpu/api.hpp"
#include "gpu/device/mailbox.hpp"
#include "gpu/line.hpp"
#include "gpu/setting.hpp"

namespace tutti::gpu {

class Proxy {
 public:
  /// The thread's.
  struct Device {
    std::shared_ptr<Api> api;
    int number = 0;
    bool flushes = false;  ///< what adapters write into its memory, before a kernel is told of it
  };
  /// `failed` is told, on the thread, why nothing moves any more. All outlive the proxy. Throws Error(system)
  /// where there can be no more threads.
  Proxy(Network& network, Device device, const device::Mailbox& layout, const std::vector<Line>& lines,
        std::function<void(const Error&)> failed);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  /// Something will soon be in an outbox.
  void wake();

 private:
  class Carrier;
  void run();
  void work();
  bool move();

  const Device device_;
  std::function<void(const Error&)> failed_;
  std::vector<transport::Transport*> transports_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool wanted_ = false;
  std::atomic<bool> over_{false};
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti::gpu
