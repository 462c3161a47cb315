/// \file
/// Ranks that share a window, by every way that leads from one to another.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace tutti::test {

/// How the ranks of a test are started and reach each other.
enum class Way : std::uint8_t {
  threads,        ///< memory of the same process
  mapped,         ///< processes, memory from allocate
  attached,       ///< processes, plain memory
  tcp_threads,    ///< over TCP, threads
  tcp_processes,  ///< over TCP, processes
  verbs_fake,     ///< RDMA in a fabric that exists in memory only
  verbs_devices,  ///< RDMA over the devices of this machine
};
inline auto every_way() {
  return testing::Values(Way::threads, Way::mapped, Way::attached, Way::tcp_threads, Way::tcp_processes,
                         Way::verbs_fake, Way::verbs_devices);
}
std::string name_of(Way way);
/// Those in which a rank can be killed.
bool has_processes(Way way);
/// Empty, or why this machine has not got it.
std::string why_not(Way way);
/// How the `Window::path` to another rank begins.
std::string path_of(Way way);

/// Tests over ways.
class OverWays : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (const auto why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

/// What a rank has.
struct Seat {
  Rank rank = 0;
  int size = 1;
  std::function<void()> barrier;
  /// Zeroed memory of the kind that the way is about. Collective.
  std::function<std::shared_ptr<std::byte>(std::size_t)> allocate;
  std::function<Window(std::span<std::byte>, const WindowOptions&)> window;
  Communicator* communicator = nullptr;  ///< not with verbs_fake and verbs_devices
  std::function<void()> lose_device;     ///< only with verbs_fake: this rank's is taken away

  /// Memory and its window in one.
  struct Place {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes;
    Window window;
    template <class T>
    [[nodiscard]] std::span<T> as() const {
      return {reinterpret_cast<T*>(memory.get()), bytes / sizeof(T)};
    }
  };
  [[nodiscard]] Place place(std::size_t bytes, const WindowOptions& options = {}) const {
    auto memory = allocate(bytes);
    std::byte* data = memory.get();
    return {std::move(memory), bytes, window({data, bytes}, options)};
  }
};

/// Runs `body` on all ranks and expects all to end well; `victim` is to die by a signal.
void run(Way way, int ranks, const std::function<void(Seat&)>& body,
         std::chrono::milliseconds timeout = std::chrono::seconds(20), Rank victim = -1);

}  // namespace tutti::test
