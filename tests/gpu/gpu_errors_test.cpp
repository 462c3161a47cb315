// What a Gpu refuses, and how its calls end that cannot be done, over the emulated device.
#include <tutti/gpu.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"
#include "gpu/few_threads.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

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

TEST_F(GpuTest, AGroupThatCannotBePreparedIsNotBegun) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<float> buffer(memory, std::vector<float>(64, 1));
        const auto sum = [&] {
          gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        };
        sum();
        api->synchronize(nullptr);
        comm.barrier();
        api->refuses_memory = true;
        auto group = gpu.group(nullptr);
        group.all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        group.all_reduce(buffer.data(), buffer.data(), 64, DataType::float32,
                         scaled_sum(0.5));  // takes memory
        EXPECT_EQ(code_of([&] { group.run(); }, "cudaMalloc"), ErrorCode::system);
        const auto scaled = [&] {
          gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32, scaled_sum(1.5));
        };
        EXPECT_EQ(code_of(scaled, "cudaMalloc"), ErrorCode::system);  // there still is none
        api->synchronize(nullptr);
        EXPECT_EQ(buffer.values(), std::vector<float>(64, 2));
        comm.barrier();
        sum();
        api->refuses_memory = false;
        scaled();
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(buffer.values(), std::vector<float>(64, 12));
      },
      quick());
}

// Not only until their deadline; and it gives up what it has enqueued itself.
TEST_F(GpuTest, ARankWithoutHostMemoryForItsPartHasFailedForAll) {
  static thread_local bool fails;
  api->before = [](std::string_view call) {
    if (fails && call == "upload") throw std::bad_alloc();
  };
  constexpr const char* text = "rank 1 is out of memory";
  using Part = std::function<void(Gpu&, const OnGpu<float>&)>;
  const Part parts[] = {
      [](Gpu& gpu, const OnGpu<float>& buffer) {
        gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
      },
      [](Gpu& gpu, const OnGpu<float>& buffer) {
        auto group = gpu.group(nullptr);
        group.all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        group.run();
      },
  };
  for (const Part& part : parts)
    run_local(
        3,
        [&](Communicator& comm) {
          Gpu gpu(comm, small);
          const OnGpu<float> buffer(memory, std::vector<float>(64, 1));
          if (comm.rank() == 2) {
            hear_of_failure(comm);
          } else {
            gpu.on(nullptr).barrier();  // waits for rank 2
            fails = comm.rank() == 1;
            if (fails)
              EXPECT_EQ(code_of([&] { part(gpu, buffer); }, text), ErrorCode::system);
            else
              part(gpu, buffer);
            fails = false;
            api->synchronize(nullptr);
          }
          EXPECT_EQ(code_of([&] { gpu.check(); }, text), ErrorCode::aborted);
          EXPECT_EQ(code_of([&] { comm.barrier(); }, text), ErrorCode::aborted);
        },
        quick());
}

TEST_F(GpuTest, CallsWhosePlansAreNotUploadedTakeNoMemory) {
  static std::atomic<bool> fails;
  fails = false;
  api->before = [](std::string_view call) {
    if (fails && call == "upload") throw Error(ErrorCode::system, "cudaMemcpyAsync fails");
  };
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const OnGpu<float> in(memory, std::vector<float>(64, 1)), out(memory, 64);
    const auto sum = [&] { gpu.on(nullptr).all_reduce(in.data(), out.data(), 64, DataType::float32); };
    const std::size_t held = api->bytes_held();
    fails = true;
    for (int time = 0; time < 1000; ++time)  // more than the memory for plans has room for
      ASSERT_EQ(code_of(sum, "cudaMemcpyAsync fails"), ErrorCode::system);
    EXPECT_EQ(api->bytes_held(), held);
    fails = false;
    sum();
    api->synchronize(nullptr);
    gpu.check();
    EXPECT_EQ(out.values(), std::vector<float>(64, 1));
  });
}

TEST_F(GpuTest, OneThatCannotBeMadeLeavesWhatOthersWrite) {
  run_local(1, [&](Communicator& comm) {
    {
      const FewThreads few(1);  // the stream of the proof
      EXPECT_EQ(code_of([&] { const Gpu gpu(comm, small); }, "cannot start a thread"), ErrorCode::system);
    }
    const std::size_t held = api->bytes_held();
    EXPECT_GT(held, 0U);
    api->events_left = 1;
    EXPECT_EQ(code_of([&] { const Gpu gpu(comm, small); }, "cudaEventCreateWithFlags"), ErrorCode::system);
    EXPECT_GT(api->bytes_held(), held);
    EXPECT_EQ(api->events, 0);
  });
}

#ifndef __SANITIZE_THREAD__  // which knows no threads after a fork of several
TEST_F(GpuTest, AChildOfForkIsRefusedAndDropsItsCopy) {
  run_local(1, [&](Communicator& comm) {
    auto gpu = std::make_unique<Gpu>(comm, small);
    const OnGpu<float> buffer(memory, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until its thread waits
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(20);
      api->set_device(1);  // whatever a child asks CUDA is refused
      api->refuses_devices = true;
      const auto sum = [&] {
        gpu->on(nullptr).all_reduce(buffer.data(), buffer.data(), 4, DataType::float32);
      };
      constexpr const char* why = "belongs to the parent process";
      EXPECT_EQ(code_of(sum, why), ErrorCode::forked);
      EXPECT_EQ(code_of([&] { static_cast<void>(gpu->allocate<float>(4)); }, why), ErrorCode::forked);
      EXPECT_EQ(code_of([&] { gpu->check(); }, why), ErrorCode::forked);
      gpu.reset();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
}
#endif

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

TEST_F(GpuTest, WhatIsWrongOnOneRankIsThrownOnAll) {
  static thread_local std::string_view fails;
  api->before = [](std::string_view call) {
    if (call == fails) throw Error(ErrorCode::system, std::string(call) + " fails");
  };
  run_local(
      2,
      [&](Communicator& comm) {
        const bool wrong = comm.rank() == 1;
        const GpuOptions options{.blocks = wrong ? 0 : 4, .memory = small.memory};
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, options); }, "rank 1: GpuOptions::blocks is 0"),
                  ErrorCode::invalid_argument);
        for (const std::string call : {"load_kernels", "create_stream", "create_event"}) {
          if (wrong) fails = call;
          EXPECT_EQ(code_of([&] { const Gpu gpu(comm, small); }, ("rank 1: " + call + " fails").c_str()),
                    ErrorCode::system);
          fails = {};
        }
        Gpu gpu(comm, small);
        const OnGpu<float> mine(memory, std::vector<float>(64, 1));
        std::vector<float> host(64);
        const auto refused = [&] {
          static_cast<void>(gpu.register_memory(wrong ? host.data() : mine.data(), 256));
        };
        EXPECT_EQ(code_of(refused, "rank 1: register_memory takes memory of device"),
                  ErrorCode::invalid_argument);
        const auto adds = [&](float sum) {
          gpu.on(nullptr).all_reduce(mine.data(), mine.data(), 64, DataType::float32);
          api->synchronize(nullptr);
          gpu.check();
          EXPECT_EQ(mine.values(), std::vector<float>(64, sum));
        };
        adds(2);
        if (wrong) fails = "synchronize_event";
        const char* const text = "rank 1: synchronize_event fails";
        EXPECT_EQ(code_of([&] { static_cast<void>(gpu.allocate<float>(8)); }, text), ErrorCode::system);
        EXPECT_EQ(code_of([&] { static_cast<void>(gpu.register_memory(mine.data(), 256)); }, text),
                  ErrorCode::system);
        fails = {};
        adds(4);
      },
      quick());
}

// A proxy comes last, when the other rank has one already.
TEST_F(GpuTest, AThreadThatDoesNotStartOnOneRankIsThrownOnAll) {
  run_local(
      2,
      [&](Communicator& comm) {
        for (const int started : {1, 2}) {  // the stream of the proof; what looks after kernels
          std::optional<FewThreads> few;
          if (comm.rank() == 1) few.emplace(started);
          EXPECT_EQ(code_of([&] { const Gpu gpu(comm, hosts_of(1)); }, "rank 1: cannot start a thread"),
                    ErrorCode::system);
        }
        Gpu gpu(comm, hosts_of(1));
        const OnGpu<float> mine(memory, std::vector<float>(64, 1));
        gpu.on(nullptr).all_reduce(mine.data(), mine.data(), 64, DataType::float32);
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(mine.values(), std::vector<float>(64, 2));
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
          expect_missing(gpu, 1, "all_reduce(64 x float32, sum) #1");
          EXPECT_EQ(code_of([&] { gpu.on(nullptr).barrier(); }, "#1"),
                    ErrorCode::timeout);  // and from then on
        }
        hear_of_failure(comm);
      },
      quick());
}

TEST_F(GpuTest, ADeadlineInAnEarlierCallNamesNoOther) {
  run_local(
      2,
      [&](Communicator& comm) {
        GpuOptions options = small;
        options.timeout = std::chrono::milliseconds(500);
        Gpu gpu(comm, options);
        const gpu::Stream stream = api->create_stream();
        const OnGpu<float> buffer(memory, 64);
        api->begin_capture(stream);
        gpu.on(stream).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        const auto graph = api->end_capture(stream);
        for (int time = 0; time < 64; ++time) gpu.on(stream).barrier();  // as many as are remembered
        api->synchronize(stream);
        comm.barrier();
        if (comm.rank() == 0) {
          api->replay(graph, stream);
          api->synchronize(stream);
          expect_missing(gpu, 1, "an earlier or captured call #1 on a GPU");
        }
        hear_of_failure(comm);
        api->destroy_stream(stream);
      },
      quick());
}

TEST_F(GpuTest, AnAbortEndsARunningKernel) {
  std::promise<void> enqueued;
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const OnGpu<float> buffer(memory, 64);
        if (comm.rank() == 1) {
          enqueued.get_future().wait_for(std::chrono::seconds(20));
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          comm.abort("the test says so");
          return;
        }
        gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
        enqueued.set_value();
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
