// Gpu from end to end over the emulated device: every operation against the communicator's own on host
// memory.
#include <tutti/gpu.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <optional>
#include <span>
#include <thread>

#include <tutti/local.hpp>

#include "base/deadline.hpp"
#include "communicator/pages_apart.hpp"
#include "communicator/ranks.hpp"
#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"
#include "kernels/fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

TEST_F(GpuTest, EveryOperationAsOnHostMemory) {
  for (const int ranks : {1, 2, 3})
    run_local(
        ranks,
        [&](Communicator& comm) {
          Gpu gpu(comm, small);
          for (const std::size_t count : {1, 700, 20011}) exercise(memory, comm, gpu, count);
        },
        quick());
}

TEST_F(GpuTest, MakingAndDestroyingOneAreNoCallsOfTheProgram) {
  run_local(
      2,
      [&](Communicator& comm) {
        comm.barrier();
        const auto before = comm.stats().operations;
        static_cast<void>(Gpu(comm, small));
        EXPECT_EQ(comm.stats().operations, before);
      },
      quick());
}

// Nor are they other calls: who makes one of those meanwhile hears of it.
TEST_F(GpuTest, DestroyingOneIsNoBarrier) {
  const auto all = outcomes(2, quick(), [&](Communicator& comm) {
    auto gpu = std::make_optional<Gpu>(comm, small);
    if (comm.rank() == 0) gpu.reset();
    comm.barrier();
  });
  EXPECT_THAT(all[1].text, HasSubstr("destroying a Gpu"));
}

TEST_F(GpuTest, EveryOperationBetweenProcesses) {
  api->processes = true;
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        EXPECT_THAT(gpu.explain(), HasSubstr("a file descriptor of its memory"));
        for (const std::size_t count : {9, 20011}) exercise(memory, comm, gpu, count);
      },
      quick());
  EXPECT_EQ(api->imports, 0);
  EXPECT_EQ(api->bytes_held(), 0U);
}

// Messages go by the blocks that have slots, which are fewer than a launch may have.
TEST_F(GpuTest, MoreBlocksThanHaveSlots) {
  api->processes = true;
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, {.blocks = 20, .memory = std::size_t{4} << 20});
        std::string plans;
        for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::all_gather,
                                     Operation::all_to_all, Operation::scatter, Operation::gather}) {
          const OnGpu<float> in(memory, 1000000), out(memory, 1000000);
          plans += gpu.explain({.operation = operation,
                                .type = DataType::float32,
                                .in = in.data(),
                                .out = out.data(),
                                .count = 500000}) +
                   "; ";
        }
        EXPECT_THAT(plans, HasSubstr("1 lane x 16 slices"));
        exercise(memory, comm, gpu, 500000);
      },
      quick());
}

TEST_F(GpuTest, InPlace) {
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        for (const std::size_t count : {5, 30000}) {
          auto wanted = numbers(3 * count, comm.rank());
          const OnGpu<float> buffer(memory, wanted);
          comm.all_reduce(std::span(wanted));
          comm.all_to_all(wanted.data(), wanted.data(), count, DataType::float32);
          gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 3 * count, DataType::float32);
          gpu.on(nullptr).all_to_all(buffer.data(), buffer.data(), count, DataType::float32);
          api->synchronize(nullptr);
          gpu.check();
          ASSERT_EQ(buffer.values(), wanted);
        }
      },
      quick());
}

TEST_F(GpuTest, OddCountsAndUnalignedBuffersOfEveryType) {
  Options options = quick();
  options.rank_order = true;  // one order of reduction, whichever algorithm
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        for (const DataType type : all_types)
          for (const std::size_t count : {1, 7, 61, 10007}) {
            const std::size_t element = size_of(type), bytes = count * element;
            std::mt19937_64 random{static_cast<std::uint64_t>(comm.rank())};
            const auto input = random_elements(type, random, count);
            std::vector<std::byte> wanted(bytes);
            comm.all_reduce(input.data(), wanted.data(), count, type);
            // Aligned to elements, not to vectors, and not alike.
            const OnGpu<std::byte> in(memory, bytes + element), out(memory, bytes + 3 * element);
            memory.put(in.data() + element, input.data(), bytes);
            gpu.on(nullptr).all_reduce(in.data() + element, out.data() + 3 * element, count, type);
            api->synchronize(nullptr);
            gpu.check();
            std::vector<std::byte> found(bytes);
            memory.get(found.data(), out.data() + 3 * element, bytes);
            ASSERT_TRUE(found == wanted) << count << " x " << name(type);
          }
      },
      options);
}

TEST_F(GpuTest, GroupsOfSendsAndReceives) {
  run_local(
      3,
      [&](Communicator& comm) {
        GpuOptions options = small;
        options.blocks = 12;  // two a lane
        Gpu gpu(comm, options);
        constexpr std::size_t count = 10007;
        std::vector<std::unique_ptr<OnGpu<float>>> out, in;
        auto group = gpu.group(nullptr);
        for (int time = 0; time < 2; ++time)
          for (Rank peer = 0; peer < comm.size(); ++peer) {
            out.push_back(std::make_unique<OnGpu<float>>(memory, numbers(count, 10 * comm.rank() + time)));
            in.push_back(std::make_unique<OnGpu<float>>(memory, count));
            group.send(out.back()->data(), count, DataType::float32, peer);
            group.receive(in.back()->data(), count, DataType::float32, peer);
          }
        group.run();
        api->synchronize(nullptr);
        gpu.check();
        for (std::size_t i = 0; i < in.size(); ++i)
          ASSERT_EQ(in[i]->values(), numbers(count, static_cast<Rank>(10 * (i % 3) + i / 3))) << i;
      },
      quick());
}

TEST_F(GpuTest, AGroupIsPreparedBeforeItRuns) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        constexpr std::size_t count = 100000;
        const OnGpu<float> buffer(memory, std::vector<float>(count, 1));
        auto wrong = gpu.group(nullptr);
        wrong.send(buffer.data(), count, DataType::float32, comm.rank());
        EXPECT_EQ(code_of([&] { wrong.prepare(); }, "sends itself 1 message(s) and receives 0"),
                  ErrorCode::invalid_argument);
        auto group = gpu.group(nullptr);
        for (int time = 0; time < 2; ++time)
          group.all_reduce(buffer.data(), buffer.data(), count, DataType::float32);
        group.prepare();
        api->synchronize(nullptr);
        EXPECT_EQ(buffer.values(), std::vector<float>(count, 1));
        comm.barrier();
        const std::size_t held = api->bytes_held();
        comm.barrier();
        group.run();
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(buffer.values(), std::vector<float>(count, 4));
        EXPECT_EQ(api->bytes_held(), held);
        comm.barrier();
      },
      quick());
}

TEST_F(GpuTest, CallsFollowTheirStreamAndEachOther) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const gpu::Stream first = api->create_stream(), second = api->create_stream();
        const OnGpu<float> buffer(memory, 1000);
        std::latch enqueued(1);
        api->enqueue(first, [&] {
          enqueued.wait();  // nothing may have run before all is enqueued
          std::fill_n(buffer.data(), 1000, 1.0F);
        });
        gpu.on(first).all_reduce(buffer.data(), buffer.data(), 1000, DataType::float32);
        gpu.on(second).all_reduce(buffer.data(), buffer.data(), 1000, DataType::float32);
        enqueued.count_down();
        api->synchronize(second);
        EXPECT_EQ(buffer.values(), std::vector<float>(1000, 4.0F));
        api->synchronize(first);
        gpu.check();
        comm.barrier();
        api->destroy_stream(first);
        api->destroy_stream(second);
      },
      quick());
}

TEST_F(GpuTest, CapturedCallsAreReplayed) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const gpu::Stream stream = api->create_stream();
        for (const std::size_t count : {100, 50000}) {
          const OnGpu<float> buffer(memory, std::vector<float>(count, 1));
          api->begin_capture(stream);
          gpu.on(stream).all_reduce(buffer.data(), buffer.data(), count, DataType::float32);
          const auto graph = api->end_capture(stream);
          api->synchronize(stream);
          EXPECT_EQ(buffer.values()[0], 1.0F);  // captured, not run
          for (int time = 0; time < 3; ++time) api->replay(graph, stream);
          api->synchronize(stream);
          gpu.check();
          ASSERT_EQ(buffer.values(), std::vector<float>(count, 8.0F));
        }
        comm.barrier();
        api->destroy_stream(stream);
      },
      quick());
}

TEST_F(GpuTest, CallsOfOneCaptureFollowEachOther) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const gpu::Stream first = api->create_stream(), second = api->create_stream();
        const OnGpu<float> buffer(memory, std::vector<float>(1000));
        const auto sum = [&](gpu::Stream stream) {
          gpu.on(stream).all_reduce(buffer.data(), buffer.data(), 1000, DataType::float32);
        };
        std::latch replayed(1);
        api->begin_capture(first);
        api->join_capture(second, first);
        api->enqueue(first, [&] {
          replayed.wait();
          std::fill_n(buffer.data(), 1000, 1.0F);
        });
        sum(first);
        sum(second);
        const auto graph = api->end_capture(first), beside = api->end_capture(second);
        api->replay(beside, second);
        api->replay(graph, first);
        replayed.count_down();
        api->synchronize(second);
        EXPECT_EQ(buffer.values(), std::vector<float>(1000, 4.0F));
        api->synchronize(first);
        gpu.check();
        comm.barrier();
        api->destroy_stream(first);
        api->destroy_stream(second);
      },
      quick());
}

TEST_F(GpuTest, CapturesDoNotFollowEachOther) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const gpu::Stream first = api->create_stream(), second = api->create_stream();
        const OnGpu<float> buffer(memory, std::vector<float>(1000, 1));
        for (const gpu::Stream stream : {first, second}) api->begin_capture(stream);
        for (const gpu::Stream stream : {first, second})
          gpu.on(stream).all_reduce(buffer.data(), buffer.data(), 1000, DataType::float32);
        const auto other = api->end_capture(first), graph = api->end_capture(second);
        const gpu::Event replayed = api->create_event();
        api->replay(graph, second);
        api->record(replayed, second);
        const Deadline deadline(std::chrono::seconds(10));
        while (!api->is_reached(replayed) && !deadline.passed()) std::this_thread::yield();
        if (!api->is_reached(replayed)) {
          ADD_FAILURE() << "it waits for the other capture, which nobody replays";
          api->replay(other, first);  // or it would wait for ever
        }
        api->synchronize(second);
        api->destroy_event(replayed);
        gpu.check();
        EXPECT_EQ(buffer.values(), std::vector<float>(1000, 2.0F));
        comm.barrier();
        api->destroy_stream(first);
        api->destroy_stream(second);
      },
      quick());
}

TEST_F(GpuTest, TwoCommunicatorsInOneGraph) {
  run_local(
      2,
      [&](Communicator& comm) {
        Communicator other = comm.duplicate();
        Gpu first(comm, small), second(other, small);
        const gpu::Stream stream = api->create_stream();
        const OnGpu<float> buffer(memory, std::vector<float>(20000, 1));
        api->begin_capture(stream);
        first.on(stream).all_reduce(buffer.data(), buffer.data(), 20000, DataType::float32);
        second.on(stream).all_reduce(buffer.data(), buffer.data(), 100, DataType::float32);
        first.on(stream).all_reduce(buffer.data(), buffer.data(), 100, DataType::float32);
        const auto graph = api->end_capture(stream);
        for (int time = 0; time < 2; ++time) api->replay(graph, stream);
        api->synchronize(stream);
        first.check();
        second.check();
        EXPECT_EQ(buffer.values()[0], 64.0F);
        EXPECT_EQ(buffer.values()[19999], 4.0F);
        comm.barrier();
        api->destroy_stream(stream);
      },
      quick());
}

TEST_F(GpuTest, PinnedAndManagedMemoryIsTaken) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        for (std::byte* pointer : {api->allocate_pinned(256), api->allocate_managed(256)}) {
          *reinterpret_cast<float*>(pointer) = 3;
          gpu.on(nullptr).all_reduce(pointer, pointer, 1, DataType::float32);
          api->synchronize(nullptr);
          EXPECT_EQ(*reinterpret_cast<float*>(pointer), 6);
          api->free(pointer);
        }
      },
      quick());
}

// What lies between blocks may be no memory; a copy has no room for it.
TEST_F(GpuTest, WithAFactorBlocksAreCopiedWithoutTheirGaps) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const PagesApart in(large_gap);
        api->pin(reinterpret_cast<std::byte*>(in.data()), in.bytes());
        const std::vector<std::size_t> counts{10, 20}, at{in.second(), 7};
        for (std::size_t r = 0; r < 2; ++r)
          for (std::size_t i = 0; i < counts[r]; ++i) in.data()[at[r] + i] = static_cast<float>(100 * r + i);
        const auto mine = static_cast<std::size_t>(comm.rank());
        std::vector<float> want(counts[mine]);
        for (std::size_t i = 0; i < want.size(); ++i) want[i] = 4 * static_cast<float>(100 * mine + i);
        const OnGpu<float> out(memory, want.size());
        gpu.on(nullptr).reduce_scatter_v(in.data(), out.data(), counts, at, DataType::float32, scaled_sum(2));
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(out.values(), want);
        comm.barrier();
        api->unpin(reinterpret_cast<std::byte*>(in.data()));
      },
      quick());
}

TEST_F(GpuTest, AnotherDeviceMayBeTheCurrentOne) {
  run_local(
      2,
      [&](Communicator& comm) {
        const OnGpu<float> buffer(memory, std::vector<float>(64, 1));
        {
          Gpu gpu;
          EXPECT_FALSE(gpu);
          gpu = Gpu(comm, small);
          EXPECT_TRUE(gpu);
          api->set_device(1);
          const auto allocated = gpu.allocate<float>(64);
          auto group = gpu.group(nullptr);
          group.all_reduce(buffer.data(), allocated.data(), 64, DataType::float32);
          group.run();
          api->synchronize(nullptr);
          gpu.check();
          EXPECT_EQ(allocated.span()[63], 2);
        }
        EXPECT_EQ(api->current_device(), 1);
        api->set_device(0);
        comm.barrier();
        EXPECT_EQ(api->freed_elsewhere, 0);
      },
      quick());
}

}  // namespace
}  // namespace tutti::test
