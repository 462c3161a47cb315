// Jobs: their order, and what becomes of those that cannot be done.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>

#include "gpu/few_threads.hpp"
#include "nccl/clients.hpp"
#include "nccl/handles.hpp"
#include "nccl/result.hpp"

namespace tutti::test {
namespace {

class Jobs : public NcclTest {
 protected:
  /// Ranks of this thread.
  template <std::size_t ranks>
  std::array<ncclComm_t, ranks> make(const std::array<int, ranks>& devices) {
    std::array<ncclComm_t, ranks> comms{};
    EXPECT_EQ(ncclCommInitAll(comms.data(), ranks, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
    return comms;
  }
  static ncclConfig_t nonblocking() {
    ncclConfig_t config = initial_config;
    config.blocking = 0;
    return config;
  }
  /// Two ranks of this thread, which do not block.
  std::array<ncclComm_t, 2> make_nonblocking(const std::array<int, 2>& devices = {0, 0}) {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = nonblocking();
    std::array<ncclComm_t, 2> comms{};
    for (const int rank : {0, 1}) {
      const auto r = static_cast<std::size_t>(rank);
      api->set_device(devices[r]);
      EXPECT_EQ(ncclCommInitRankConfig(&comms[r], 2, id, rank, &config), ncclInProgress);
    }
    api->set_device(0);
    for (const auto comm : comms)
      EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(comm);
    return comms;
  }
  static void end_nonblocking(const std::vector<ncclComm_t>& comms) {
    for (const auto comm : comms) EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress) << ncclGetLastError(comm);
    for (const auto comm : comms) {
      EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(comm);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    }
  }
  /// A part of rank 1 alone, which keeps it in the session: rank 0, which has its hub, waits a second for it
  /// to leave when both end.
  static ncclComm_t part_of_rank_1(const std::array<ncclComm_t, 2>& comms) {
    std::array<ncclComm_t, 2> parts{};
    for (const int rank : {0, 1}) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(ncclCommSplit(comms[r], rank == 0 ? no_color : 0, 0, &parts[r], nullptr), ncclInProgress);
    }
    for (const auto comm : comms) EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess);
    return parts[1];
  }
  static void end_all_but_rank_0(const std::array<ncclComm_t, 2>& comms) {
    for (const auto comm : comms) EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(changed_from(ncclInProgress, comms[1]), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  static int size_of(ncclComm_t comm) {
    int size = -1;
    EXPECT_EQ(ncclCommCount(comm, &size), ncclSuccess) << ncclGetLastError(comm);
    return size;
  }
};

TEST_F(Jobs, ThatCannotBeStartedLeaveNoCommunicator) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  {
    const FewThreads none(0);
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSystemError);
    expect_told("cannot start a thread");
    EXPECT_EQ(comm, nullptr);
  }
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Jobs, OneThatCannotBeStartedEndsItsGroup) {
  ::setenv("TUTTI_TIMEOUT", "1", 1);  // of those that were started
  std::array<ncclComm_t, 3> comms{};
  constexpr std::array devices{0, 0, 0};
  const FewThreads two(2);
  EXPECT_EQ(ncclCommInitAll(comms.data(), 3, devices.data()), ncclSystemError);
  expect_told("cannot start a thread");
  EXPECT_THAT(comms, testing::Each(nullptr));
}

TEST_F(Jobs, AWindowThatCannotBeStartedIsNone) {
  const auto comms = make<1>({0});
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 4096), ncclSuccess);
  ncclWindow_t window = nullptr;
  {
    const FewThreads none(0);
    EXPECT_EQ(ncclCommWindowRegister(comms[0], memory, 4096, &window, 0), ncclSystemError);
    expect_told("cannot start a thread");
  }
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

TEST_F(Jobs, ACommunicatorEndsWithoutAThread) {
  const auto comms = make<2>({0, 0});
  {
    const FewThreads none(0);
    EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms[0]), ncclInvalidArgument);
  }
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
}

TEST_F(Jobs, ACommunicatorEndsWithoutItsDevice) {
  const auto destroyed = make<2>({1, 1});
  const auto aborted = make<1>({1});
  api->refuses_devices = true;
  for (const auto comm : destroyed) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_EQ(ncclCommAbort(aborted[0]), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommAbort(aborted[0]), ncclInvalidArgument);
}

TEST_F(Jobs, ACommunicatorTakesNoCallsBeforeItIsMade) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, comm, nullptr), ncclInvalidUsage);
  expect_told("not made yet");
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(Jobs, ASimulatedGroupLeavesNoCommunicator) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  ncclSimInfo_t info{};
  info.size = sizeof info;
  info.magic = simulation_magic;
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(Jobs, ASimulatedGroupEndsAsOthersDo) {
  ncclSimInfo_t info{sizeof info, simulation_magic, version_code, 0};
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
  for (int depth = 0; depth < 2; ++depth) ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Jobs, ThoseOfOneCommunicatorFollowEachOther) {
  const auto comms = make<2>({0, 0});
  constexpr std::size_t splits = 6;
  // Every other one is of both ranks; the rest of one each.
  const auto color = [](std::size_t split, int rank) { return split % 2 == 0 ? 0 : rank; };
  std::array<std::array<ncclComm_t, 2>, splits> parts{};
  const auto expect_sizes = [&] {
    for (std::size_t s = 0; s < splits; ++s)
      for (const ncclComm_t part : parts[s]) {
        EXPECT_EQ(changed_from(ncclInProgress, part), ncclSuccess) << ncclGetLastError(part);
        EXPECT_EQ(size_of(part), s % 2 == 0 ? 2 : 1) << s;
      }
    for (const auto& pair : parts)
      for (const ncclComm_t part : pair) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  };
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const int rank : {0, 1}) {
    const auto r = static_cast<std::size_t>(rank);
    for (std::size_t s = 0; s < splits; ++s)
      EXPECT_EQ(ncclCommSplit(comms[r], color(s, rank), rank, &parts[s][r], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  expect_sizes();
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  const auto others = make_nonblocking();
  for (std::size_t s = 0; s < splits; ++s)
    for (const int rank : {0, 1}) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(ncclCommSplit(others[r], color(s, rank), rank, &parts[s][r], nullptr), ncclInProgress);
    }
  expect_sizes();
  end_nonblocking({others[0], others[1]});
}

TEST_F(Jobs, ABlockingParentsPartsAreReadyWhenTheyAreGivenOut) {
  const auto comms = make<2>({0, 0});
  std::array<ncclComm_t, 2> parts{}, rests{};
  const auto program = [&](std::size_t r) {
    ncclConfig_t config = nonblocking();
    const int key = static_cast<int>(r);
    EXPECT_EQ(ncclCommSplit(comms[r], 0, key, &parts[r], &config), ncclSuccess) << ncclGetLastError(comms[r]);
    EXPECT_EQ(async_error(parts[r]), ncclSuccess);
    EXPECT_EQ(size_of(parts[r]), 2);
    EXPECT_EQ(ncclCommShrink(comms[r], nullptr, 0, &rests[r], &config, shrink_default), ncclSuccess);
    EXPECT_EQ(async_error(rests[r]), ncclSuccess);
  };
  std::thread first(program, std::size_t{0}), second(program, std::size_t{1});
  first.join(), second.join();
  end_nonblocking({parts[0], parts[1], rests[0], rests[1]});  // as they were asked for
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Jobs, ANonblockingParentsPartsBlockOnceTheyAreMade) {
  const auto comms = make_nonblocking();
  ncclConfig_t config = initial_config;
  std::array<ncclComm_t, 2> parts{};
  ASSERT_EQ(ncclCommSplit(comms[0], 0, 0, parts.data(), &config), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(parts[0]), ncclInvalidArgument) << "it would wait for the next rank";
  ASSERT_EQ(ncclCommSplit(comms[1], 0, 0, &parts[1], &config), ncclInProgress);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {  // the other part may not be made yet
    EXPECT_EQ(changed_from(ncclInProgress, comms[rank]), ncclSuccess) << ncclGetLastError(comms[rank]);
    EXPECT_EQ(ncclCommFinalize(parts[rank]), ncclSuccess) << ncclGetLastError(parts[rank]);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "one waited for its end";
  for (const auto part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  end_nonblocking({comms[0], comms[1]});
}

TEST_F(Jobs, ANonblockingParentIsUnderWayWhileItsPartsAreMade) {
  const auto comms = make_nonblocking();
  // A part of both, which the other rank does not make yet.
  std::array<ncclComm_t, 2> parts{};
  ASSERT_EQ(ncclCommSplit(comms[0], 0, 0, parts.data(), nullptr), ncclInProgress);
  EXPECT_EQ(async_error(comms[0]), ncclInProgress);
  ASSERT_EQ(ncclCommSplit(comms[1], 0, 0, &parts[1], nullptr), ncclInProgress);
  for (const std::size_t r : {0, 1}) {
    EXPECT_EQ(changed_from(ncclInProgress, comms[r]), ncclSuccess) << ncclGetLastError(comms[r]);
    EXPECT_EQ(async_error(parts[r]), ncclSuccess);
    EXPECT_EQ(size_of(parts[r]), 2);
  }
  // Who gets no part has nobody else to ask.
  ncclComm_t none = nullptr, alone = nullptr;
  ASSERT_EQ(ncclCommSplit(comms[0], no_color, 0, &none, nullptr), ncclInProgress);
  EXPECT_EQ(async_error(comms[0]), ncclInProgress);
  ASSERT_EQ(ncclCommSplit(comms[1], 0, 0, &alone, nullptr), ncclInProgress);
  for (const auto comm : comms) EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(size_of(alone), 1);
  // What becomes of a part is no longer its parent's.
  EXPECT_EQ(ncclCommFinalize(parts[0]), ncclInProgress);
  EXPECT_EQ(async_error(parts[0]), ncclInProgress);
  EXPECT_EQ(async_error(comms[0]), ncclSuccess);
  for (const auto comm : {parts[1], alone, comms[0], comms[1]})
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  for (const auto comm : {parts[0], parts[1], alone, comms[0], comms[1]}) {
    EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(Jobs, ThatEndForAWhileCanBeAskedAbout) {
  const auto comms = make_nonblocking();
  const auto part = part_of_rank_1(comms);
  const auto begin = std::chrono::steady_clock::now();
  end_all_but_rank_0(comms);
  const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500);
  const ncclResult_t of_hub = async_error(comms[0]);
  if (in_time) {
    EXPECT_EQ(of_hub, ncclInProgress);
  }
  end_nonblocking({part});
  for (const auto comm : comms) {
    EXPECT_EQ(changed_from(ncclInProgress, comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(Jobs, ThatEndForAWhileAreNotTakenForUnmadeOnesByAnAbort) {
  const auto comms = make_nonblocking();
  const auto part = part_of_rank_1(comms);
  const auto ending = comm_of(comms[0]);
  end_all_but_rank_0(comms);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_NE(ending->poll(), ncclInvalidUsage) << ncclGetLastError(nullptr);
  end_nonblocking({part});
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
}

TEST_F(Jobs, AWindowAndASplitOfOneCommunicatorAreOneGroup) {
  const auto comms = make<2>({0, 0});
  std::array<ncclComm_t, 2> parts{};
  std::array<void*, 2> memory{};
  std::array<ncclWindow_t, 2> windows{};
  for (void*& m : memory) ASSERT_EQ(ncclMemAlloc(&m, 4096), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::size_t r : {0, 1}) {
    EXPECT_EQ(ncclCommWindowRegister(comms[r], memory[r], 4096, &windows[r], 0), ncclSuccess);
    EXPECT_EQ(ncclCommSplit(comms[r], 0, 0, &parts[r], nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (const std::size_t r : {0, 1}) EXPECT_EQ(ncclCommWindowDeregister(comms[r], windows[r]), ncclSuccess);
  for (const auto part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  for (void* m : memory) EXPECT_EQ(ncclMemFree(m), ncclSuccess);
}

TEST_F(Jobs, CallsOfAGroupFollowItsWindows) {
  const auto comms = make_nonblocking();
  constexpr std::size_t count = 8, bytes = count * sizeof(float);
  std::array<ncclComm_t, 2> rests{};
  std::array<void*, 2> memory{};
  std::array<gpu::Stream, 2> streams{};
  for (const std::size_t r : {0, 1}) {
    ASSERT_EQ(ncclMemAlloc(&memory[r], bytes), ncclSuccess);
    streams[r] = api->create_stream();
  }
  std::latch first_group_is_full(1);
  const auto program = [&](std::size_t r) {
    auto* const data = static_cast<float*>(memory[r]);
    std::fill_n(data, count, 1.0F);
    // The windows have their turn after this, which needs both ranks.
    if (r == 1) first_group_is_full.wait();
    EXPECT_EQ(ncclCommShrink(comms[r], nullptr, 0, &rests[r], nullptr, shrink_default), ncclInProgress);
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommWindowRegister(comms[r], data, bytes, &window, 0), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comms[r], streams[r]), ncclSuccess);
    if (r == 0) first_group_is_full.count_down();
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress) << ncclGetLastError(nullptr);
    api->synchronize(streams[r]);
    EXPECT_EQ(std::vector<float>(data, data + count), std::vector<float>(count, 2));
    EXPECT_EQ(ncclCommWindowDeregister(comms[r], window), ncclSuccess);
  };
  std::thread first(program, std::size_t{0}), second(program, std::size_t{1});
  first.join(), second.join();
  // The turn of what made them has ended, but they may not be ready yet.
  for (const auto rest : rests)
    EXPECT_EQ(changed_from(ncclInProgress, rest), ncclSuccess) << ncclGetLastError(rest);
  end_nonblocking({rests[0], rests[1], comms[0], comms[1]});
  for (const std::size_t r : {0, 1}) {
    EXPECT_EQ(ncclMemFree(memory[r]), ncclSuccess);
    api->destroy_stream(streams[r]);
  }
}

// A thread may end its ranks one after the other, with all that each has.
TEST_F(Jobs, RegistrationsAreDroppedWhileOtherRanksAreAwaited) {
  const auto comms = make<2>({0, 0});
  const Floats data(*api, std::vector<float>(8));
  void* handle = nullptr;
  ASSERT_EQ(ncclCommRegister(comms[0], data.data(), 8 * sizeof(float), &handle), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comms[0]), ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(ncclCommDeregister(comms[0], handle), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(async_error(comms[0]), ncclInProgress);  // for the other rank
  EXPECT_EQ(ncclCommFinalize(comms[1]), ncclSuccess);
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Jobs, OnACommunicatorThatWasAbortedFail) {
  const auto comms = make<1>({0});
  const auto aborted = comm_of(comms[0]);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_THROW(aborted->leave_part(0), Failure);
  nccl::Registration window;
  EXPECT_THROW(aborted->open_window(window), Failure);
}

/// Rank 0 of two, which hears `told` when another thread aborts `made`.
void make_until_aborted(const ncclUniqueId& id, std::atomic<ncclComm_t>& made, const char* told) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  made = comm;
  made.notify_all();
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  expect_told(told);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(Jobs, AnAbortEndsTheWaitForRanksThatDoNotCome) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::atomic<ncclComm_t> made{nullptr};
  std::thread waits(make_until_aborted, id, std::ref(made),
                    "ncclCommAbort was called before the communicator was ready");
  made.wait(nullptr);
  EXPECT_EQ(changed_from(ncclInvalidUsage, made), ncclInProgress);  // the group has ended
  EXPECT_EQ(ncclCommAbort(made), ncclSuccess);
  waits.join();
  ncclComm_t other = nullptr;  // comes all the same
  EXPECT_NE(ncclCommInitRank(&other, 2, id, 1), ncclSuccess);
  EXPECT_EQ(other, nullptr);
}

TEST_F(Jobs, AnAbortEndsTheWaitForRanksThatHaveComeToo) {
  std::atomic<int> loading{0};
  std::latch let_go(1);
  api->before = [&](std::string_view call) {
    if (call != "load_kernels") return;
    ++loading;
    if (api->current_device() == 1) let_go.wait();
  };
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::atomic<ncclComm_t> made{nullptr};
  std::thread waits(make_until_aborted, id, std::ref(made), "ncclCommAbort was called");
  std::thread other([&] {
    api->set_device(1);
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, 1), ncclSuccess);
    EXPECT_EQ(comm, nullptr);
  });
  while (loading < 2) std::this_thread::yield();
  std::thread aborts([&] { EXPECT_EQ(ncclCommAbort(made), ncclSuccess); });
  waits.join();
  let_go.count_down();
  aborts.join(), other.join();
}

TEST_F(Jobs, AParentCanBeAbortedWhileAPartIsConnected) {
  std::atomic<bool> holds{false};
  std::atomic<int> loading{0};
  std::latch let_go(1);
  api->before = [&](std::string_view call) {
    if (!holds || call != "load_kernels") return;
    ++loading;
    if (api->current_device() == 1) let_go.wait();
  };
  const auto comms = make_nonblocking({0, 1});
  holds = true;
  std::array<ncclComm_t, 2> parts{};
  for (const std::size_t r : {0, 1})
    ASSERT_EQ(ncclCommSplit(comms[r], 0, 0, &parts[r], nullptr), ncclInProgress);
  while (loading < 2) std::this_thread::yield();
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_EQ(async_error(parts[0]), ncclInProgress);
  let_go.count_down();
  for (const auto part : parts)
    EXPECT_EQ(changed_from(ncclInProgress, part), ncclSuccess) << ncclGetLastError(part);
  for (const auto part : parts) EXPECT_EQ(ncclCommFinalize(part), ncclInProgress);
  for (const auto part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
}

TEST_F(Jobs, WhatOneRankCannotMakeIsToldToTheOthers) {
  std::atomic<int> made{0}, fails{0};  // events of device 1
  api->before = [&](std::string_view call) {
    if (call == "create_event" && api->current_device() == 1 && ++made == fails)
      throw Error(ErrorCode::system, "cudaEventCreateWithFlags: the test refuses it");
  };
  EXPECT_EQ(ncclCommDestroy(make<1>({1})[0]), ncclSuccess);
  const int all = made;
  EXPECT_GT(all, 0);
  for (int one = 1; one <= all; ++one) {
    made = 0, fails = one;
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const auto join = [&](int rank) {
      api->set_device(rank);
      ncclComm_t comm = nullptr;
      EXPECT_THAT(ncclCommInitRank(&comm, 2, id, rank),
                  testing::AnyOf(ncclUnhandledCudaError, ncclRemoteError));
      expect_told(rank == 1 ? "the test refuses it" : "rank 1");
      EXPECT_EQ(comm, nullptr);
    };
    std::thread first(join, 0), second(join, 1);
    first.join(), second.join();
  }
  while (api->events > 0) std::this_thread::yield();  // their threads end
}

TEST_F(Jobs, ThatFailLeaveNoEvents) {
  const auto comms = make<1>({0});
  api->events_left = api->events - 1;  // all but the last of a communicator's
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
  int device = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, &device), ncclUnhandledCudaError);
  expect_told("cudaEventCreateWithFlags");
  EXPECT_EQ(comm, nullptr);
  while (api->events > 0) std::this_thread::yield();  // its thread ends
}

}  // namespace
}  // namespace tutti::test
