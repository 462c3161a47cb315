// How processes open each other's device memory: every way, and what is taken in place of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "communicator/ranks.hpp"
#include "gpu/emulated_memory.hpp"
#include "gpu/exercise.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Ranks are threads, each of which passes for a process.
class GpuSharing : public GpuTest {
 protected:
  GpuSharing() { api->processes = true; }
  template <class Matcher>
  void expect_way(const Matcher& way, const GpuOptions& options = small, int ranks = 3) {
    run_local(
        ranks,
        [&](Communicator& comm) {
          Gpu gpu(comm, options);
          EXPECT_THAT(gpu.explain(), way);
          for (const std::size_t count : {5, 7001}) exercise(memory, comm, gpu, count);
        },
        quick());
    EXPECT_EQ(api->imports, 0);
    EXPECT_EQ(api->bytes_held(), 0U);
  }
};

TEST_F(GpuSharing, ByDescriptor) {
  expect_way(
      HasSubstr("a file descriptor of its memory; the same device: kernels of two processes take turns"));
}

TEST_F(GpuSharing, DevicesReachEachOther) {
  for (const bool processes : {false, true}) {
    api->processes = processes;
    run_local(
        3,
        [&](Communicator& comm) {
          api->set_device(comm.rank() % 2);
          Gpu gpu(comm, small);
          const char* const other = processes ? "a file descriptor of its memory\n" : "peer access\n";
          const char* const same = processes ? "take turns" : ": the same device";
          EXPECT_THAT(gpu.explain() + "\n", HasSubstr(other));
          EXPECT_EQ(gpu.explain().find(same) != std::string::npos, comm.rank() != 1) << gpu.explain();
          for (const std::size_t count : {5, 7001}) exercise(memory, comm, gpu, count);
        },
        quick());
  }
}

TEST_F(GpuSharing, DevicesThatFailToReachEachOtherTalkThroughHostMemory) {
  api->processes = false;
  api->before = [this](std::string_view call) {
    if (call == "reach_device" && api->current_device() == 1)
      throw Error(ErrorCode::system, "cudaDeviceEnablePeerAccess: the test refuses it");
  };
  run_local(
      2,
      [&](Communicator& comm) {
        api->set_device(comm.rank());
        Gpu gpu(comm, small);
        EXPECT_THAT(gpu.explain(),
                    HasSubstr("page-locked host memory (cudaDeviceEnablePeerAccess: the test refuses it)"));
        exercise(memory, comm, gpu, 7001);
      },
      quick());
}

TEST_F(GpuSharing, AMailboxThatDoesNotOpenIsToldToAll) {
  static thread_local int pins_left = 0;
  api->before = [](std::string_view call) {
    if (call == "pin" && --pins_left < 0)
      throw Error(ErrorCode::system, "cudaHostRegister: the test refuses it");
  };
  run_local(
      2,
      [&](Communicator& comm) {
        pins_left = comm.rank() == 1 ? 1 : 2;  // its own, and the other's
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, through_host_memory()); },
                          "rank 1: cudaHostRegister: the test refuses it"),
                  ErrorCode::system);
      },
      quick());
}

TEST_F(GpuSharing, WithoutDescriptorsByCudaIpc) {
  api->offers_descriptors = false;
  expect_way(HasSubstr("CUDA IPC (the test has no descriptors)"));
}

TEST_F(GpuSharing, MemoryIsFreedWhenOthersHaveClosedIt) {
  static thread_local bool slow = false;
  api->offers_descriptors = false;
  api->before = [this](std::string_view call) {
    if (call != "close" || !std::exchange(slow, false)) return;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (api->freed_while_open == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  };
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        const auto buffer = gpu.allocate<float>(100);
        slow = comm.rank() == 1;
      },
      quick());
  EXPECT_EQ(api->freed_while_open, 0);
  EXPECT_EQ(api->imports, 0);
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuSharing, DescriptorsThatDoNotOpenGiveWayToCudaIpcOnAllRanks) {
  api->opens_descriptors = false;
  expect_way(AllOf(HasSubstr("CUDA IPC (rank 0: a file descriptor was not opened: "),
                   HasSubstr("cuMemImportFromShareableHandle: the test refuses it)")));
}

TEST_F(GpuSharing, DescriptorsThatDoNotOpenGiveWayToFabricHandles) {
  api->opens_descriptors = false;
  api->offers_fabric = true;
  expect_way(HasSubstr("a fabric handle (a file descriptor was not opened: "));
}

TEST_F(GpuSharing, AFabricThatIsNotPermittedIsDoneWithout) {
  api->offers_fabric = true;
  api->permits_fabric = false;
  expect_way(HasSubstr("a file descriptor of its memory"));
}

TEST_F(GpuSharing, WhereNothingOpensThroughHostMemory) {
  api->opens_descriptors = api->opens_ipc = false;
  expect_way(AllOf(HasSubstr("page-locked host memory (a handle of CUDA IPC was not opened: "),
                   HasSubstr("cudaIpcOpenMemHandle: the test refuses it)")),
             small, 2);
}

TEST_F(GpuSharing, HostsOfOneDomainReachEachOthersDevices) {
  api->offers_fabric = true;
  expect_way(AllOf(HasSubstr(": a fabric handle"), Not(HasSubstr("network"))), hosts_of(1), 3);
}

TEST_F(GpuSharing, HostsWithoutAFabricTalkOverTheNetwork) {
  expect_way(HasSubstr("the network (GpuOptions::host_size; the test has no "
                       "fabric)"),
             hosts_of(1), 2);
  api->offers_fabric = true;
  api->permits_fabric = false;
  expect_way(HasSubstr("cuMemCreate for a fabric: the test refuses it"), hosts_of(1), 2);
  api->permits_fabric = true;
  api->opens_fabric = false;  // as in another domain
  expect_way(AllOf(HasSubstr("the network"), HasSubstr("a fabric handle was not opened")), hosts_of(1), 2);
  api->opens_fabric = true;
  GpuOptions options = hosts_of(1);
  options.fabric = false;
  expect_way(HasSubstr("the network"), options, 2);
}

TEST_F(GpuSharing, AFabricThatCorruptsIsLeftForTheNetwork) {
  api->offers_fabric = api->corrupts = true;
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(1));
        if (comm.rank() < 2) {
          EXPECT_THAT(gpu.explain(), HasSubstr("the network (what was written"));
        }
        exercise(memory, comm, gpu, 700);
      },
      quick());
}

#ifndef __SANITIZE_THREAD__  // which knows no new threads after a fork of several
TEST(GpuProcesses, ReachEachOthersMemory) {
  for (const bool fabric : {false, true})
    run_processes(2, quick(), [&](Communicator& comm) {
      const auto api = std::make_shared<EmulatedApi>(1);
      gpu::replace_api(api);
      EmulatedMemory memory(*api);
      api->offers_fabric = fabric;
      api->opens_descriptors = !fabric;
      Gpu gpu(comm, GpuTest::small);
      EXPECT_THAT(gpu.explain(), HasSubstr(fabric ? "a fabric handle" : "a file descriptor of its memory"));
      for (const std::size_t count : {5, 7001}) exercise(memory, comm, gpu, count);
    });
}
#endif

}  // namespace
}  // namespace tutti::test
