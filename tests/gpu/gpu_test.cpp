// Gpu from end to end over the emulated device: every operation against the communicator's own on host
// memory.
#include <tutti/gpu.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <span>
#include <thread>

#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"
#include "kernels/fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

Options quick() {
  Options options;
  options.timeout = std::chrono::seconds(60);
  return options;
}

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

TEST_F(GpuTest, BadCallsAreRefusedBeforeAnythingIsEnqueued) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<float> good(memory, std::vector<float>(64, 1));
        std::vector<float> host(64);
        auto ops = gpu.on(nullptr);
        const auto reduce = [&](const float* in, float* out) {
          ops.all_reduce(in, out, 60, DataType::float32);
        };
        constexpr auto invalid = ErrorCode::invalid_argument;
        EXPECT_EQ(code_of([&] { reduce(host.data(), good.data()); }, "the input is plain host memory"),
                  invalid);
        EXPECT_EQ(code_of([&] { reduce(good.data(), host.data()); }, "the output is plain host memory"),
                  invalid);
        EXPECT_EQ(code_of(
                      [&] {
                        ops.all_reduce(reinterpret_cast<std::byte*>(good.data()) + 1, good.data(), 4,
                                       DataType::float32);
                      },
                      "overlap"),
                  invalid);
        auto* crooked = reinterpret_cast<std::byte*>(good.data()) + 130;
        EXPECT_EQ(code_of([&] { ops.all_reduce(crooked, good.data(), 4, DataType::float32); }, "not aligned"),
                  invalid);
        EXPECT_EQ(code_of([&] { reduce(nullptr, good.data()); }, "null"), invalid);
        float* freed = nullptr;
        {
          const OnGpu<float> short_lived(memory, 64);
          freed = short_lived.data();
        }
        EXPECT_EQ(code_of([&] { reduce(good.data(), freed); }, "or was freed"), invalid);
        api->set_device(1);
        const OnGpu<float> other(memory, 64);
        const gpu::Stream stream = api->create_stream();
        api->set_device(0);
        EXPECT_EQ(code_of([&] { reduce(good.data(), other.data()); }, "memory of device 1"), invalid);
        EXPECT_EQ(code_of([&] { gpu.on(stream).barrier(); }, "stream belongs to device 1"), invalid);
        api->destroy_stream(stream);
        ops.all_reduce(good.data(), good.data(), 64, DataType::float32);  // all is as before
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(good.values(), std::vector<float>(64, 2));
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

TEST_F(GpuTest, OptionsMustAgree) {
  run_local(
      2,
      [&](Communicator& comm) {
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, {.blocks = 4 + 4 * comm.rank()}); }, "other GpuOptions"),
                  ErrorCode::mismatch);
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, {.host_size = comm.rank()}); }, "other GpuOptions"),
                  ErrorCode::mismatch);
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, {.blocks = 0}); }, "blocks is 0"),
                  ErrorCode::invalid_argument);
      },
      quick());
}

TEST_F(GpuTest, ADeadlineNamesTheCallAndTheRank) {
  run_local(
      2,
      [&](Communicator& comm) {
        GpuOptions options = small;
        options.timeout = std::chrono::milliseconds(100);
        Gpu gpu(comm, options);
        const OnGpu<float> buffer(memory, 64);
        if (comm.rank() == 0) {
          gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
          api->synchronize(nullptr);
          try {
            gpu.check();
            ADD_FAILURE() << "the missing rank was not noticed";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::timeout);
            EXPECT_THAT(error.ranks(), testing::ElementsAre(1));
            EXPECT_THAT(error.what(), HasSubstr("all_reduce(64 x float32, sum) #1"));
          }
          EXPECT_EQ(code_of([&] { gpu.on(nullptr).barrier(); }, "#1"),
                    ErrorCode::timeout);  // and from then on
        }
        hear_of_failure(comm);
      },
      quick());
}

TEST_F(GpuTest, AnAbortEndsARunningKernel) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<float> buffer(memory, 64);
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          comm.abort("the test says so");
          return;
        }
        gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        api->synchronize(nullptr);
        EXPECT_EQ(code_of([&] { gpu.check(); }, "the test says so"), ErrorCode::aborted);
      },
      quick());
}

TEST_F(GpuTest, AnAbortFromAnotherThreadEndsTheRanksOwnKernel) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        if (comm.rank() == 1) {  // takes no part, and hears of it
          while (true) try {
              gpu.check();
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), ErrorCode::aborted);
              return;
            }
        }
        const OnGpu<float> buffer(memory, 64);
        gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        std::chrono::steady_clock::time_point aborted;
        std::thread other([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          aborted = std::chrono::steady_clock::now();
          comm.abort("another thread says so");
        });
        api->synchronize(nullptr);
        other.join();
        EXPECT_LT(std::chrono::steady_clock::now() - aborted, std::chrono::seconds(1));
        EXPECT_EQ(code_of([&] { gpu.check(); }, "another thread says so"), ErrorCode::aborted);
      },
      quick());
}

/// Both ranks enqueue one call, which differ. One finds out, and tells the other.
void expect_mismatch(EmulatedApi& api, const GpuOptions& options,
                     const std::function<void(Gpu&, float*, Rank)>& call) {
  EmulatedMemory memory(api);
  std::atomic<int> mismatches = 0;
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, options);
        const OnGpu<float> buffer(memory, 60000);
        call(gpu, buffer.data(), comm.rank());
        api.synchronize(nullptr);
        try {
          while (true) {  // a rank that waits for nobody hears of it later
            gpu.check();
            comm.barrier();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        } catch (const Error& error) {
          EXPECT_TRUE(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::aborted)
              << error.what();
          if (error.code() == ErrorCode::mismatch) ++mismatches;
        }
      },
      quick());
  EXPECT_GE(mismatches, 1);
}

TEST_F(GpuTest, CallsThatDifferAreFound) {
  constexpr auto type = DataType::float32;
  for (const GpuOptions& options : {small, through_host_memory(), hosts_of(1)}) {
    expect_mismatch(*api, options, [](Gpu& gpu, float* buffer, Rank rank) {
      gpu.on(nullptr).all_reduce(buffer, buffer, 64, type, rank == 0 ? ReduceOp::sum : ReduceOp::max);
    });
    // Packets here, slots or the peer's buffers there.
    expect_mismatch(*api, options, [](Gpu& gpu, float* buffer, Rank rank) {
      gpu.on(nullptr).all_reduce(buffer, buffer, rank == 0 ? 64 : 60000, type);
    });
    expect_mismatch(*api, options, [](Gpu& gpu, float* buffer, Rank rank) {
      if (rank == 0)
        gpu.on(nullptr).broadcast(buffer, buffer, 5000, type, 1);
      else
        gpu.on(nullptr).reduce(buffer, buffer, 5000, type, 1);
    });
    expect_mismatch(*api, options, [](Gpu& gpu, float* buffer, Rank rank) {
      if (rank == 0)
        gpu.on(nullptr).send(buffer, 100, type, 1);
      else
        gpu.on(nullptr).receive(buffer, 100, DataType::int32, 0);
    });
  }
}

TEST_F(GpuTest, PlansThatAreNotUsedMakeRoom) {
  run_local(
      1,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<float> buffer(memory, std::vector<float>(1000, 1));
        const auto calls = [&](std::size_t from, std::size_t to) {
          for (std::size_t count = from; count < to; ++count) {
            gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), count, DataType::float32);
            api->synchronize(nullptr);
          }
          gpu.check();
        };
        calls(1, 270);
        const std::size_t held = api->bytes_held();
        calls(270, 500);
        EXPECT_EQ(api->bytes_held(), held);
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

TEST(GpuWithoutDevice, SaysWhatIsMissing) {
  gpu::replace_api(nullptr);
  run_local(1, [](Communicator& comm) {
    try {
      const Gpu gpu(comm);
      GTEST_SKIP() << "there is a GPU";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    }
  });
}

}  // namespace
}  // namespace tutti::test
