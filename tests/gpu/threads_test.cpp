// The threads of a Gpu, without memory for what they have to say.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "gpu/device/arena.hpp"
#include "gpu/emulated_memory.hpp"
#include "gpu/proxy.hpp"
#include "gpu/sentry.hpp"

namespace tutti::test {
namespace {

class Nowhere final : public gpu::Network {
 public:
  transport::Transport& to(Rank) override { throw std::bad_alloc(); }
};

TEST(GpuThreads, ASentryLooksAgain) {
  gpu::Setting setting;
  std::atomic<int> looks{0};
  setting.interrupted = [&looks]() -> std::optional<Error> {
    if (++looks == 1) throw std::bad_alloc();
    return Error(ErrorCode::aborted, "another rank failed");
  };
  gpu::device::Control control;
  gpu::Sentry sentry(setting, control);
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::atomic_ref(control.abort).load() == 0 && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(code_of([&] { sentry.check(); }, "another rank failed"), ErrorCode::aborted);
}

TEST(GpuThreads, AProxyEnds) {
  const auto api = std::make_shared<EmulatedApi>();
  api->refuses_devices = true;
  Nowhere network;
  std::promise<void> told;
  const gpu::Proxy proxy(network, {api}, {}, {}, [&told](const Error&) {
    told.set_value();
    throw std::bad_alloc();
  });
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace tutti::test
