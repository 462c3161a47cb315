// What would keep kernels of ranks from running side by side, and what a capture has to do with the host.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"

namespace tutti::test {
namespace {

class SideBySide : public GpuTest {};

TEST_F(SideBySide, RanksDoNotMeetInTheDefaultStream) {
  api->one_default_stream = true;
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const OnGpu<float> buffer(memory, std::vector<float>(64, 1));
    const auto reduce = [&](gpu::Stream stream) {
      gpu.on(stream).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
      api->synchronize(stream);
      gpu.check();
    };
    EXPECT_EQ(code_of([&] { reduce(nullptr); }, "every rank needs a stream of its own"),
              ErrorCode::invalid_argument);
    const gpu::Stream stream = api->create_stream();
    reduce(stream);
    EXPECT_EQ(buffer.values(), std::vector<float>(64, 2));
    Communicator alone = *comm.split(comm.rank());
    Gpu own(alone, small);
    own.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
    api->synchronize(nullptr);
    comm.barrier();
    api->destroy_stream(stream);
  });
}

TEST_F(SideBySide, KernelsThatDoNotFitSideBySideAreRefused) {
  api->resident = 11;
  run_local(3, [&](Communicator& comm) {
    EXPECT_EQ(code_of([&] { const Gpu gpu(comm, small); }, "take 3 or fewer"), ErrorCode::invalid_argument);
    GpuOptions fewer = small;
    fewer.blocks = 3;
    Gpu gpu(comm, fewer);
    exercise(memory, comm, gpu, 20011);
  });
}

// A thread with several ranks prepares them all: then kernels of some already wait for those of the others.
TEST_F(SideBySide, WhatWasPreparedIsKeptWhereThereAreManyPlans) {
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    constexpr std::size_t plans = 256;
    const OnGpu<std::uint8_t> buffer(memory, std::vector<std::uint8_t>(plans + 1, 1));
    for (std::size_t count = 1; count <= plans; ++count)
      gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), count, DataType::uint8);
    api->synchronize(nullptr);
    auto group = gpu.group(nullptr);
    group.all_reduce(buffer.data(), buffer.data(), plans + 1, DataType::uint8);
    group.prepare();
    const int uploads = api->uploads;
    group.run();
    api->synchronize(nullptr);
    gpu.check();
    EXPECT_EQ(api->uploads, uploads);
  });
}

TEST_F(SideBySide, WhatIsNotACallIsDoneAtOnceDuringACapture) {
  api->processes = true;
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const gpu::Stream stream = api->create_stream();
    constexpr std::size_t count = 20000;
    const OnGpu<float> first(memory, std::vector<float>(count, 1)), sums(memory, std::vector<float>(count));
    api->begin_capture(stream);
    gpu.on(stream).all_reduce(first.data(), sums.data(), count, DataType::float32);
    const auto second = gpu.allocate<float>(count);
    const auto registration = gpu.register_memory(sums.data(), count * sizeof(float));
    const int before = api->one_sided;
    gpu.on(stream).all_reduce(sums.data(), second.data(), count, DataType::float32);
    const auto graph = api->end_capture(stream);
    EXPECT_GT(api->one_sided, before);
    EXPECT_EQ(sums.values()[0], 0.0F);  // captured, not run
    comm.barrier();
    for (int time = 0; time < 2; ++time) api->replay(graph, stream);
    api->synchronize(stream);
    gpu.check();
    EXPECT_EQ(sums.values(), std::vector<float>(count, 2));
    EXPECT_EQ(second.span()[count - 1], 4);
    comm.barrier();
    api->destroy_stream(stream);
  });
}

}  // namespace
}  // namespace tutti::test
