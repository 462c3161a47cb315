// How communicators are made, divided, and end; memory; what a program may ask.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <future>
#include <latch>
#include <sstream>

#include "bootstrap/ranks.hpp"
#include "nccl/clients.hpp"
#include "nccl/result.hpp"

namespace tutti::test {
namespace {

class Lifecycle : public NcclTest {
 protected:
  /// All of `comm`'s ranks call it.
  void expect_sum(ncclComm_t comm, cudaStream_t stream, float wanted) {
    const Floats a(*api, std::vector<float>(10, 1));
    ASSERT_EQ(ncclAllReduce(a.data(), a.data(), 10, ncclFloat32, ncclSum, comm, stream), ncclSuccess)
        << ncclGetLastError(comm);
    api->synchronize(stream);
    EXPECT_EQ(a.values(), std::vector<float>(10, wanted));
  }
};

TEST_F(Lifecycle, ASplitHasTheRanksOfItsColor) {
  on_threads(3, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    ncclComm_t part = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, rank == 1 ? no_color : 4, -rank, &part, nullptr), ncclSuccess)
        << ncclGetLastError(comm);
    if (rank == 1) {
      EXPECT_EQ(part, nullptr);
    } else {
      int mine = -1;
      EXPECT_EQ(ncclCommUserRank(part, &mine), ncclSuccess);
      EXPECT_EQ(mine, rank == 2 ? 0 : 1);  // by key
      expect_sum(part, stream, 2);
    }
    expect_sum(comm, stream, 3);
    if (part != nullptr) {
      EXPECT_EQ(ncclCommFinalize(part), ncclSuccess);
      EXPECT_EQ(ncclCommFinalize(part), ncclInvalidArgument);
      expect_told("finalized before");
      EXPECT_EQ(ncclCommRevoke(part, 0), ncclInvalidArgument);
      EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, part, stream), ncclInvalidUsage);
      EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(part), ncclInvalidArgument);
    }
    EXPECT_EQ(ncclCommSplit(comm, -5, 0, &part, nullptr), ncclInvalidArgument);
  });
}

TEST_F(Lifecycle, AShrunkCommunicatorLivesWithoutTheOthers) {
  on_threads(3, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    int last = 2;
    if (rank != last) {
      for (int time = 0; time < 2; ++time) {
        ncclComm_t rest = nullptr;
        ASSERT_EQ(ncclCommShrink(comm, &last, 1, &rest, nullptr, shrink_default), ncclSuccess)
            << ncclGetLastError(comm);
        expect_sum(rest, stream, 2);
        EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
      }
      int myself = rank;
      ncclComm_t rest = nullptr;
      EXPECT_EQ(ncclCommShrink(comm, &myself, 1, &rest, nullptr, shrink_default), ncclInvalidArgument);
    }
    expect_sum(comm, stream, 3);
  });
}

TEST_F(Lifecycle, SurvivorsOfAnAbortGoOn) {
  std::atomic<int> through{0};
  on_threads(
      3,
      [&](int rank, ncclComm_t comm, cudaStream_t stream) {
        expect_sum(comm, stream, 3);
        int first = 0;
        if (rank == first) {  // which has the hub of all of them
          EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        } else {
          EXPECT_EQ(changed_from(ncclSuccess, comm), ncclRemoteError);
          ncclComm_t rest = nullptr;
          ASSERT_EQ(ncclCommShrink(comm, &first, 1, &rest, nullptr, shrink_abort), ncclSuccess)
              << ncclGetLastError(comm);
          expect_sum(rest, stream, 2);
          EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
          EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        }
        ++through;
      },
      false);
  EXPECT_EQ(through, 3);
}

TEST_F(Lifecycle, WhoHearsOfAnotherRanksErrorGetsNoCallThrough) {
  std::latch all_heard(2);
  on_threads(
      2,
      [&](int rank, ncclComm_t comm, cudaStream_t stream) {
        const Floats a(*api, std::vector<float>(10, 1));
        if (rank == 0) {  // waits for nobody
          EXPECT_EQ(ncclBcast(a.data(), 10, ncclFloat32, 0, comm, stream), ncclSuccess);
        } else {
          EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 10, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
        }
        EXPECT_EQ(changed_from(ncclSuccess, comm), ncclInvalidUsage);
        EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 10, ncclFloat32, ncclSum, comm, stream),
                  ncclInvalidUsage);
        all_heard.arrive_and_wait();
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        api->synchronize(stream);
      },
      false);
}

TEST_F(Lifecycle, SurvivorsGoOnAlsoWhereAWindowFailed) {
  std::latch all_have_one(3);
  on_threads(
      3,
      [&](int rank, ncclComm_t comm, cudaStream_t stream) {
        all_have_one.arrive_and_wait();
        int first = 0;
        if (rank == first) {
          EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
          return;
        }
        void* memory = nullptr;
        ASSERT_EQ(ncclMemAlloc(&memory, 4096), ncclSuccess);
        ncclWindow_t window = nullptr;
        EXPECT_EQ(ncclCommWindowRegister(comm, memory, 4096, &window, 0), ncclRemoteError);
        EXPECT_EQ(window, nullptr);
        EXPECT_EQ(async_error(comm), ncclRemoteError);
        EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, comm, stream), ncclRemoteError);
        EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess) << ncclGetLastError(comm);
        ncclComm_t rest = nullptr;
        ASSERT_EQ(ncclCommShrink(comm, &first, 1, &rest, nullptr, shrink_abort), ncclSuccess)
            << ncclGetLastError(comm);
        expect_sum(rest, stream, 2);
        EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
      },
      false);
}

TEST_F(Lifecycle, AnAbortEndsKernelsOfAllRanks) {
  std::promise<void> enqueued;
  on_threads(
      2,
      [&](int rank, ncclComm_t comm, cudaStream_t stream) {
        const Floats a(*api, std::vector<float>(10, 1));
        if (rank == 0) {
          ASSERT_EQ(ncclAllReduce(a.data(), a.data(), 10, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
          enqueued.set_value();
          const ncclResult_t error = changed_from(ncclSuccess, comm);
          EXPECT_EQ(error, ncclRemoteError);
          expect_told("abort");
          api->synchronize(stream);  // the kernel has ended
        } else {
          enqueued.get_future().wait_for(std::chrono::seconds(20));
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        ncclResult_t error = ncclSuccess;
        EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclInvalidArgument);
      },
      false);
}

TEST_F(Lifecycle, ARevokedCommunicatorTakesNoCalls) {
  on_threads(
      2,
      [&](int, ncclComm_t comm, cudaStream_t stream) {
        EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);
        EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
        EXPECT_EQ(ncclCommRevoke(comm, 0), ncclInvalidArgument);
        EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, comm, stream), ncclInvalidUsage);
        expect_told("revoked");
        EXPECT_EQ(async_error(comm), ncclSuccess);
        EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
        ncclComm_t part = nullptr;
        EXPECT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclInvalidUsage);
        ASSERT_EQ(ncclCommShrink(comm, nullptr, 0, &part, nullptr, shrink_default), ncclSuccess)
            << ncclGetLastError(comm);
        expect_sum(part, stream, 2);
        EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
        EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      },
      false);
}

TEST_F(Lifecycle, ANonblockingOneIsReadyLater) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = initial_config;
  config.blocking = 0;
  std::vector<ncclComm_t> comms(2);
  // One thread: nothing may wait.
  ASSERT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(async_error(comms[0]), ncclInProgress);
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(comms[0], &rank), ncclSuccess);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, comms[0], nullptr), ncclInvalidArgument);
  expect_told("ncclCommGetAsyncError");
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclInvalidArgument);
  expect_told("or ncclCommAbort");
  ASSERT_EQ(ncclCommInitRankScalable(&comms[1], 2, 1, 1, &id, &config), ncclInProgress);
  for (const auto comm : comms) ASSERT_EQ(changed_from(ncclInProgress, comm), ncclSuccess);
  const gpu::Stream streams[] = {api->create_stream(), api->create_stream()};
  const Floats a(*api, {1, 2}), b(*api, {10, 20});
  EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 2, ncclFloat32, ncclSum, comms[0], streams[0]), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(b.data(), b.data(), 2, ncclFloat32, ncclSum, comms[1], streams[1]), ncclSuccess);
  for (const auto stream : streams) api->synchronize(stream);
  EXPECT_EQ(a.values(), (std::vector<float>{11, 22}));
  for (const auto comm : comms) EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  for (const auto comm : comms) EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess);
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  for (const auto stream : streams) api->destroy_stream(stream);
}

TEST_F(Lifecycle, BadArgumentsOfInitAreRefused) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  expect_told("ranks are 0 to 1");
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, &id, nullptr), ncclInvalidArgument);
  ncclConfig_t config = initial_config;
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  expect_told("NCCL_CONFIG_INITIALIZER");
  config = initial_config;
  config.minCTAs = 8, config.maxCTAs = 4;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  config = initial_config;
  config.blocking = 7;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  const int no_device = 99;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, &no_device), ncclInvalidArgument);
  expect_told("device 99 does not exist; devices are 0 to 1");
  std::vector<ncclComm_t> too_many(3);
  EXPECT_EQ(ncclCommInitAll(too_many.data(), 3, nullptr), ncclUnhandledCudaError);
  EXPECT_EQ(comm, nullptr);
  const ncclUniqueId nonsense{};
  EXPECT_EQ(ncclCommInitRank(&comm, 2, nonsense, 1), ncclInvalidArgument);
  expect_told("not a unique id");
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(nullptr, 0), ncclSuccess);
  // The first version that had a config had less of it.
  config = initial_config;
  config.size = offsetof(ncclConfig_t, cgaClusterSize);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Lifecycle, RanksThatAreNeverBegunLeaveNoListener) {
  using bootstrap::test::open_descriptors;
  constexpr std::array devices{0, 0};
  std::array<ncclComm_t, 2> comms{};
  std::ptrdiff_t open = 0;
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(nullptr, 1, {}, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    if (time == 0) open = open_descriptors();  // the first id opens what stays open
    EXPECT_EQ(open_descriptors(), open);
  }
}

TEST_F(Lifecycle, MemoryAndRegistrations) {
  on_threads(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
    void* memory = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 4096), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(memory, memory, 1024, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
    api->synchronize(stream);
    void* handle = nullptr;
    ASSERT_EQ(ncclCommRegister(comm, memory, 4096, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidUsage);
    EXPECT_EQ(ncclCommDeregister(comm, nullptr), ncclSuccess);
    float host = 0;
    EXPECT_EQ(ncclCommRegister(comm, &host, sizeof host, &handle), ncclInvalidArgument);
    EXPECT_EQ(ncclMemFree(&host), ncclInvalidArgument);
    std::byte* const pinned = api->allocate_pinned(64);
    EXPECT_EQ(ncclMemFree(pinned), ncclInvalidArgument);
    api->free_pinned(pinned);
    EXPECT_EQ(ncclMemFree(static_cast<std::byte*>(memory) + 1024), ncclInvalidArgument);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
    EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
    EXPECT_EQ(ncclDevCommCreate(comm, nullptr, nullptr), ncclInvalidUsage);
    EXPECT_EQ(ncclTeamWorld(comm).nRanks, 1);
    EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamWorld(comm), 0), 0);
  });
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(Lifecycle, AReductionIsDestroyedWhateverBecameOfItsCommunicator) {
  on_threads(1, [](int, ncclComm_t comm, cudaStream_t) {
    float factor = 2;
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm),
              ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
  });
}

TEST_F(Lifecycle, MemoryIsFreedOnItsDeviceWhateverTheThreads) {
  constexpr int device = 1;
  api->set_device(device);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 4096), ncclSuccess);
  const Floats data(*api, std::vector<float>(8, 3)), factor(*api, {2});
  const gpu::Stream stream = api->create_stream();
  api->set_device(0);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(api->freed_elsewhere, 0);
  const std::size_t ours = api->bytes_held();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, &device), ncclSuccess) << ncclGetLastError(nullptr);
  ncclRedOp_t op = ncclSum;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, factor.data(), ncclFloat32, ncclScalarDevice, comm), ncclSuccess);
  for (const std::size_t count : {4, 8})  // a copy of the input, and one that it outgrows
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, op, comm, stream), ncclSuccess);
  api->synchronize(stream);
  EXPECT_EQ(data.values(), (std::vector<float>{12, 12, 12, 12, 6, 6, 6, 6}));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(api->bytes_held(), ours);
  EXPECT_EQ(api->freed_elsewhere, 0);
  api->destroy_stream(stream);
}

TEST_F(Lifecycle, ErrorsOfCudaAreThoseThatNameItsFunctions) {
  const auto result = [](const char* text) { return nccl::result_of(Error(ErrorCode::system, text)); };
  EXPECT_EQ(result("cudaLaunchKernel of a collective: the test refuses it"), ncclUnhandledCudaError);
  EXPECT_EQ(result("rank 1: cuMemCreate: the test refuses it"), ncclUnhandledCudaError);
  EXPECT_EQ(result("cannot start a thread"), ncclSystemError);
}

TEST_F(Lifecycle, TheLogIsInNcclsForm) {
  const std::string file = testing::TempDir() + "tutti-nccl-log." + std::to_string(::getpid());
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_FILE", (testing::TempDir() + "tutti-nccl-log.%p").c_str(), 1);
  ncclResetDebugInit();
  on_threads(1, [](int, ncclComm_t, cudaStream_t) {});
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  ncclResetDebugInit();
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_THAT(text.str(),
              testing::ContainsRegex(":[0-9]+:[0-9]+ \\[0\\] NCCL INFO .*rank 0 nranks 1 cudaDev 0"));
  EXPECT_THAT(text.str(), testing::HasSubstr("NCCL WARN ncclCommCount: the address of the answer is null"));
  ::unlink(file.c_str());
}

TEST_F(Lifecycle, TheLogWaitsForNoReader) {
  const std::string fifo = testing::TempDir() + "tutti-nccl-fifo." + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_FILE", fifo.c_str(), 1);
  testing::internal::CaptureStdout();
  ncclResetDebugInit();
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("NCCL WARN ncclCommCount"));
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  ncclResetDebugInit();
  ::unlink(fifo.c_str());
}

TEST_F(Lifecycle, WhatIsAskedForAgainAndAgainIsLoggedOnce) {
  const std::string file = testing::TempDir() + "tutti-nccl-once." + std::to_string(::getpid());
  ::setenv("NCCL_DEBUG", "WARN", 1);
  ::setenv("NCCL_DEBUG_FILE", file.c_str(), 1);
  ncclResetDebugInit();
  std::latch launched(1);
  on_threads(
      2,
      [&](int rank, ncclComm_t comm, cudaStream_t stream) {
        if (rank == 0) {
          const Floats a(*api, std::vector<float>(10, 1));
          EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 10, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
          launched.count_down();
          EXPECT_EQ(changed_from(ncclSuccess, comm), ncclRemoteError);
          EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
          expect_told("is null");
          EXPECT_EQ(async_error(comm), ncclRemoteError);
          expect_told("a call before: ");
          api->synchronize(stream);
        } else {
          launched.wait();
        }
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      },
      false);
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  ncclResetDebugInit();
  std::ifstream lines(file);
  int told = 0;
  for (std::string line; std::getline(lines, line);)
    told += line.find("a call before: ") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 1);
  ::unlink(file.c_str());
}

#ifndef __SANITIZE_THREAD__  // which knows no new threads after a fork of several
TEST_F(Lifecycle, ErrorsAreToldWhileTheProcessEnds) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int count = 0;
    static_cast<void>(ncclCommCount(nullptr, &count));
    static_cast<void>(std::atexit([] {  // as a static object would, after this thread's own
      int size = 0;
      const bool refused = ncclCommUserRank(nullptr, &size) == ncclInvalidArgument;
      const std::string told = ncclGetLastError(nullptr);
      ::_exit(refused && told == "ncclCommUserRank: the communicator is null" ? 0 : 1);
    }));
    std::exit(2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Lifecycle, RanksAreProcesses) {
  constexpr int ranks = 2;
  struct Meeting {
    std::atomic<bool> ready{false};
    ncclUniqueId id;
  };
  void* shared = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* meeting = new (shared) Meeting;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    api = std::make_shared<EmulatedApi>(1);
    gpu::replace_api(api);
    if (rank == 0) {
      EXPECT_EQ(ncclGetUniqueId(&meeting->id), ncclSuccess);
      meeting->ready = true;
    }
    while (!meeting->ready) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, ranks, meeting->id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    const gpu::Stream stream = api->create_stream();
    if (comm != nullptr) {
      for (const std::size_t count : {10, 30000}) {
        const Floats a(*api, std::vector<float>(count, static_cast<float>(rank + 1)));
        EXPECT_EQ(ncclAllReduce(a.data(), a.data(), count, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
        api->synchronize(stream);
        EXPECT_EQ(a.values(), std::vector<float>(count, 3));
      }
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ::munmap(shared, sizeof(Meeting));
}
#endif

}  // namespace
}  // namespace tutti::test
