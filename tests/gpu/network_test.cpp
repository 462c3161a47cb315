// Ranks that do not reach each other's device memory: on one host, on several, and both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <future>
#include <span>
#include <thread>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "bootstrap/ranks.hpp"
#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"
#include "kernels/fixture.hpp"
#include "thrown.hpp"

namespace tutti::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class GpuNetwork : public GpuTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, GpuNetwork, testing::Values("", "tcp"), [](const auto& transport) {
  return transport.param[0] == '\0' ? "shm" : transport.param;
});

TEST_P(GpuNetwork, EveryOperationBetweenHosts) {
  for (const int ranks : {2, 3})
    run_local(
        ranks,
        [&](Communicator& comm) {
          Gpu gpu(comm, hosts_of(1));
          EXPECT_THAT(gpu.explain(), HasSubstr("the network (GpuOptions::host_size)"));
          EXPECT_THAT(gpu.explain(), HasSubstr("has no adapter that reaches device memory)"));
          for (const std::size_t count : {1, 6007}) exercise(memory, comm, gpu, count);
        },
        quick(GetParam()));
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_P(GpuNetwork, TwoHostsOfTwoRanks) {
  run_local(
      4,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(2));
        EXPECT_THAT(gpu.explain(), HasSubstr("the same device"));
        EXPECT_THAT(gpu.explain(), HasSubstr("the network"));
        for (const std::size_t count : {3, 7001}) exercise(memory, comm, gpu, count);
      },
      quick(GetParam()));
}

TEST_P(GpuNetwork, ByTheAlgorithmsOfHosts) {
  auto options = quick(GetParam());
  options.algorithm = "hierarchical";
  options.node_size = 2;
  run_local(
      4,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(2));
        const Call call{.operation = Operation::all_reduce, .type = DataType::float32, .count = 6007};
        const OnGpu<float> in(memory, numbers(call.count, comm.rank())), out(memory, call.count);
        EXPECT_THAT(gpu.explain(call), HasSubstr("hierarchical"));
        auto wanted = numbers(call.count, comm.rank());
        comm.all_reduce(std::span(wanted));
        gpu.on(nullptr).all_reduce(in.data(), out.data(), call.count, call.type);
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(out.values(), wanted);
      },
      options);
}

TEST_P(GpuNetwork, AGraphIsReplayed) {
  run_local(
      2, [&](Communicator& comm) { replay_a_graph(comm, hosts_of(1)); }, quick(GetParam()));
}

TEST_P(GpuNetwork, MessagesToAllSidesAtOnce) {
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(1));
        constexpr std::size_t count = 10007;
        std::vector<std::unique_ptr<OnGpu<float>>> out, in;
        auto group = gpu.group(nullptr);
        for (Rank peer = 0; peer < comm.size(); ++peer) {
          out.push_back(std::make_unique<OnGpu<float>>(memory, numbers(count, comm.rank())));
          in.push_back(std::make_unique<OnGpu<float>>(memory, count));
          group.send(out.back()->data(), count, DataType::float32, peer);
          group.receive(in.back()->data(), count, DataType::float32, peer);
        }
        group.run();
        api->synchronize(nullptr);
        gpu.check();
        for (Rank peer = 0; peer < comm.size(); ++peer)
          ASSERT_EQ(in[static_cast<std::size_t>(peer)]->values(), numbers(count, peer));
      },
      quick(GetParam()));
}

using GpuWays = GpuTest;

TEST_F(GpuWays, TheBitsOfTheProcessorsInEveryTypeAndOperation) {
  auto options = quick();
  options.rank_order = true;
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(2));
        for (const DataType type : all_types)
          for (const ReduceOp op : all_ops) {
            constexpr std::size_t count = 301;
            std::mt19937_64 random{static_cast<std::uint64_t>(comm.rank())};
            const auto input = random_elements(type, random, count);
            std::vector<std::byte> wanted(input.size());
            comm.all_reduce(input.data(), wanted.data(), count, type, op);
            const OnGpu<std::byte> in(memory, input), out(memory, input.size());
            gpu.on(nullptr).all_reduce(in.data(), out.data(), count, type, op);
            api->synchronize(nullptr);
            gpu.check();
            ASSERT_TRUE(out.values() == wanted) << name(type) << ", " << name(op);
          }
      },
      options);
}

TEST_F(GpuWays, PageLockedMemoryOfOneProcess) {
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, through_host_memory());
        EXPECT_THAT(gpu.explain(), HasSubstr("page-locked host memory (GpuOptions::peer_access)"));
        EXPECT_THAT(gpu.explain(), Not(HasSubstr("network")));
        for (const std::size_t count : {2, 6007}) exercise(memory, comm, gpu, count);
      },
      quick());
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuWays, NoDescriptorOfPageLockedMemoryIsKept) {
  api->processes = true;
  run_local(
      2,
      [&](Communicator& comm) {
        // Both ranks are of this process: one counts at a time.
        const auto open = [&] {
          std::ptrdiff_t count = 0;
          comm.barrier();
          if (comm.rank() == 0) count = bootstrap::test::open_descriptors();
          comm.barrier();
          return count;
        };
        const auto before = open();
        const Gpu gpu(comm, through_host_memory());
        EXPECT_EQ(open(), before);
      },
      quick());
}

TEST_F(GpuWays, PageLockedMemoryOfSeveralProcesses) {
  api->processes = true;
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, through_host_memory());
        for (const std::size_t count : {2, 6007}) exercise(memory, comm, gpu, count);
      },
      quick());
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuWays, DevicesApartTalkThroughHostMemory) {
  api->peers_apart = true;
  run_local(
      3,
      [&](Communicator& comm) {
        api->set_device(comm.rank() % 2);
        Gpu gpu(comm, small);
        if (comm.rank() != 1) {
          EXPECT_THAT(gpu.explain(), HasSubstr("no peer access between devices 0 and 1"));
          EXPECT_THAT(gpu.explain(), HasSubstr("the same device"));
        }
        exercise(memory, comm, gpu, 7001);
      },
      quick());
}

TEST_F(GpuWays, MemoryThatCannotBeOpenedIsDoneWithout) {
  api->processes = true;
  api->offers_descriptors = api->opens_ipc = false;
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        EXPECT_THAT(gpu.explain(), HasSubstr("the test refuses it"));
        exercise(memory, comm, gpu, 700);
      },
      quick());
}

TEST_F(GpuWays, APathThatCorruptsIsNotTaken) {
  api->corrupts = true;
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        if (comm.rank() < 2) {
          EXPECT_THAT(gpu.explain(),
                      HasSubstr("page-locked host memory (what was written into device memory"));
        }
        exercise(memory, comm, gpu, 700);
      },
      quick());
}

TEST_F(GpuWays, HostMemoryThatCorruptsIsAnError) {
  api->corrupts = true;
  run_local(
      2,
      [&](Communicator& comm) {
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, through_host_memory()); },
                          "what rank 0 wrote into its memory did not arrive"),
                  ErrorCode::system);
      },
      quick());
}

TEST_P(GpuNetwork, ADeadlineNamesTheRank) {
  run_local(
      2,
      [&](Communicator& comm) {
        GpuOptions options = hosts_of(1);
        options.timeout = std::chrono::milliseconds(100);
        Gpu gpu(comm, options);
        const OnGpu<float> buffer(memory, 64);
        if (comm.rank() == 0) {
          gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
          api->synchronize(nullptr);
          expect_missing(gpu, 1, "all_reduce(64 x float32, sum) #1");
        }
        hear_of_failure(comm);
      },
      quick(GetParam()));
}

TEST_P(GpuNetwork, AnAbortEndsARunningKernel) {
  std::promise<void> enqueued;
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(1));
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
        const auto error = thrown_by([&] { gpu.check(); });
        EXPECT_THAT(error.code, AnyOf(ErrorCode::aborted, ErrorCode::peer_lost)) << error.text;
      },
      quick(GetParam()));
}

}  // namespace
}  // namespace tutti::test
