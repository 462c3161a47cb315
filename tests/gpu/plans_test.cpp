// The plans of a Gpu: how many are kept, and what they say of themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

TEST_F(GpuTest, PlansThatAreNotUsedMakeRoom) {
  run_local(
      1,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<std::uint8_t> buffer(memory, std::vector<std::uint8_t>(1200, 1));
        const auto calls = [&](std::size_t from, std::size_t to) {
          for (std::size_t count = from; count < to; ++count) {
            gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), count, DataType::uint8);
            api->synchronize(nullptr);
          }
          gpu.check();
        };
        calls(1, 270);
        const std::size_t held = api->bytes_held();
        calls(270, 1200);  // more than the first block of programs holds
        Call call{.operation = Operation::all_reduce, .in = buffer.data(), .out = buffer.data()};
        while (++call.count < 1200) static_cast<void>(gpu.explain(call));
        EXPECT_EQ(api->bytes_held(), held);
      },
      quick());
}

TEST_F(GpuTest, PlansMakeRoomWhileTheDeviceIsAlwaysBehind) {
  run_local(
      1,
      [&](Communicator& comm) {
        constexpr int behind = 20, all = sanitized ? 500 : 1200;
        Gpu gpu(comm, small);
        const gpu::Stream stream = api->create_stream();
        const OnGpu<std::uint8_t> buffer(memory, std::vector<std::uint8_t>(all, 1));
        std::atomic<int> allowed{0}, through{0};
        const auto until = [](const std::atomic<int>& what, int number) {
          for (int seen = what; seen < number; seen = what) what.wait(seen);
        };
        const auto calls = [&](int from, int to) {
          for (int count = from; count < to; ++count) {
            api->enqueue(stream, [&allowed, until, count] { until(allowed, count); });
            gpu.on(stream).all_reduce(buffer.data(), buffer.data(), static_cast<std::size_t>(count),
                                      DataType::uint8);
            api->enqueue(stream, [&through, count] {
              through = count;
              through.notify_all();
            });
            if (count <= behind) continue;
            allowed = count - behind;
            allowed.notify_all();
            until(through, count - behind);
          }
        };
        calls(1, 300);
        const std::size_t held = api->bytes_held();
        calls(300, all);
        EXPECT_EQ(api->bytes_held(), held);
        allowed = all;
        allowed.notify_all();
        api->synchronize(stream);
        gpu.check();
        api->destroy_stream(stream);
      },
      quick());
}

TEST_F(GpuTest, PlansThatWereCapturedLeaveRoomForOthers) {
  run_local(
      1,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const gpu::Stream stream = api->create_stream();
        const OnGpu<float> buffer(memory, std::vector<float>(1000, 1));
        const auto reduce = [&](std::size_t count) {
          gpu.on(stream).all_reduce(buffer.data(), buffer.data(), count, DataType::float32);
        };
        api->begin_capture(stream);
        for (std::size_t count = 1; count <= 300; ++count) reduce(count);
        const auto graph = api->end_capture(stream);
        const auto others = [&] {
          for (const std::size_t count : {400, 401}) {
            reduce(count);
            api->synchronize(stream);
          }
        };
        others();
        const int uploads = api->uploads;
        others();
        EXPECT_EQ(api->uploads, uploads);  // their plans were kept
        api->replay(graph, stream);
        api->synchronize(stream);
        gpu.check();
        api->destroy_stream(stream);
      },
      quick());
}

TEST_F(GpuTest, PlansSayWhatTheyDo) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        Call call{.operation = Operation::all_reduce, .type = DataType::float32, .count = 64};
        const OnGpu<float> in(memory, 1 << 20), out(memory, 1 << 20);
        call.in = in.data();
        call.out = out.data();
        EXPECT_THAT(gpu.explain(call), HasSubstr("packets"));
        call.count = 1 << 20;
        EXPECT_THAT(gpu.explain(call), HasSubstr("everybody's buffers"));
        comm.barrier();
      },
      quick());
}

}  // namespace
}  // namespace tutti::test
