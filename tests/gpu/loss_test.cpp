// Ranks on other hosts that die, and connections that break, while kernels wait. Ranks are processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>

#include <tutti/gpu.hpp>

#include "communicator/ranks.hpp"
#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Rank victim = 2;
constexpr std::size_t elements = 200'000;

/// One rank: some calls go well; then the last rank dies when `dies` says, and the others hear of it.
void survive(Communicator& comm, const std::function<void(Gpu&, EmulatedApi&, float*)>& dies) {
  auto api = std::make_shared<EmulatedApi>();
  gpu::replace_api(api);
  EmulatedMemory memory(*api);
  const OnGpu<float> buffer(memory, std::vector<float>(elements, 1));
  Clock::time_point ended;
  {
    Gpu gpu(comm, {.blocks = 4, .memory = std::size_t{1} << 20, .host_size = 1});
    const auto all_reduce = [&] {
      gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), elements, DataType::float32);
    };
    all_reduce();
    api->synchronize(nullptr);
    gpu.check();
    EXPECT_EQ(buffer.values().back(), 3.0F);
    comm.barrier();
    if (comm.rank() == victim) {
      dies(gpu, *api, buffer.data());
      ::raise(SIGKILL);
    }
    const auto since = Clock::now();
    const Thrown early = thrown_by([&] {  // of a rank that comes late
      for (int time = 0; time < 2; ++time) all_reduce();
    });
    EXPECT_EQ(early.code.value_or(ErrorCode::peer_lost), ErrorCode::peer_lost) << early.text;
    api->synchronize(nullptr);
    EXPECT_LT(Clock::now() - since, 3s);
    for (const auto& later :
         {std::function<void()>([&] { gpu.check(); }), std::function<void()>(all_reduce)}) {
      const Thrown thrown = thrown_by(later);
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_THAT(thrown.ranks, ElementsAre(victim)) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("rank 2 died"));
    }
    ended = Clock::now();
  }
  EXPECT_LT(Clock::now() - ended, 3s);
}

class GpuLoss : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer knows no threads that begin after a fork";
#endif
  }
  static void expect_survivors(const std::function<void(Gpu&, EmulatedApi&, float*)>& dies) {
    auto children = fork_ranks(3, over("tcp"), [&](Communicator& comm) { survive(comm, dies); });
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_EQ(children[static_cast<std::size_t>(rank)].wait(), rank == victim ? -SIGKILL : 0) << rank;
  }
};

TEST_F(GpuLoss, ARankDiesBeforeItTakesPart) {
  expect_survivors([](Gpu&, EmulatedApi&, float*) { std::this_thread::sleep_for(100ms); });
}

TEST_F(GpuLoss, ARankDiesInTheMiddle) {
  expect_survivors([](Gpu& gpu, EmulatedApi&, float* buffer) {
    for (int time = 0; time < 3; ++time)  // more than the others will ever do
      gpu.on(nullptr).all_reduce(buffer, buffer, elements, DataType::float32);
    std::this_thread::sleep_for(5ms);
  });
}

// Nothing has connected their processors yet, and whoever is stopped does not answer.
TEST_F(GpuLoss, AnAbortEndsTheWaitForARankThatIsStopped) {
  const Shared<std::atomic<pid_t>> stopped;
  auto children = fork_ranks(2, over("tcp", 60s), [&](Communicator& comm) {
    auto api = std::make_shared<EmulatedApi>();
    gpu::replace_api(api);
    std::thread aborting;
    Clock::time_point aborted;
    api->before = [&, has_events = false](std::string_view call) mutable {
      has_events = has_events || call == "create_event";
      if (!has_events || call != "upload") return;  // which comes right before they connect
      if (comm.rank() == 1) {
        *stopped = ::getpid();
        ::raise(SIGSTOP);
        return;
      }
      for (const tutti::Deadline deadline(10s); !is_stopped(*stopped) && !deadline.passed();)
        std::this_thread::yield();
      aborting = std::thread([&] {
        std::this_thread::sleep_for(100ms);
        aborted = Clock::now();
        comm.abort("the test says so");
      });
    };
    const auto thrown = thrown_by(
        [&] { const Gpu gpu(comm, {.blocks = 4, .memory = std::size_t{1} << 20, .host_size = 1}); });
    const auto ended = Clock::now();
    if (aborting.joinable()) aborting.join();
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("the test says so"));
    EXPECT_LT(ended - aborted, 20s);
    ::kill(*stopped, SIGKILL);
  });
  EXPECT_EQ(children[0].wait(), 0);
  EXPECT_EQ(children[1].wait(), -SIGKILL);
}

}  // namespace
}  // namespace tutti::test
