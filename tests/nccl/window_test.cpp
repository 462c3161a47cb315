// Windows: memory that all ranks reach, so that calls go straight between buffers in it.
#include <array>
#include <atomic>

#include "nccl/clients.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t count = 30000, bytes = 2 * count * sizeof(float);  // in and out

class Windows : public NcclTest {
 protected:
  Windows() { api->processes = true; }  // threads of one process reach each other's memory anyway

  struct Memory {
    Memory() { EXPECT_EQ(ncclMemAlloc(&data, bytes), ncclSuccess); }
    ~Memory() { EXPECT_EQ(ncclMemFree(data), ncclSuccess); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    [[nodiscard]] float* floats() const { return static_cast<float*>(data); }
    void* data = nullptr;
  };

  /// A sum of ones, of all ranks; whether it went straight between the ranks' buffers. Not in place: memory
  /// is mapped once a rank, and ThreadSanitizer sees no order that comes through another mapping.
  bool adds_straight(float* buffer, int ranks, ncclComm_t comm, cudaStream_t stream) {
    float* const sum = buffer + count;
    std::fill_n(buffer, count, 1.0F);
    const int before = api->one_sided;
    EXPECT_EQ(ncclAllReduce(buffer, sum, count, ncclFloat32, ncclSum, comm, stream), ncclSuccess)
        << ncclGetLastError(comm);
    api->synchronize(stream);
    EXPECT_EQ(std::vector<float>(sum, sum + count), std::vector<float>(count, static_cast<float>(ranks)));
    return api->one_sided > before;
  }
};

TEST_F(Windows, CallsGoStraightWhileTheyAreRegistered) {
  constexpr int ranks = 2;
  on_threads(ranks, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const Memory memory;
    EXPECT_FALSE(adds_straight(memory.floats(), ranks, comm, stream));
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, &window, window_symmetric), ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_TRUE(adds_straight(memory.floats(), ranks, comm, stream));
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    EXPECT_FALSE(adds_straight(memory.floats(), ranks, comm, stream));
  });
  EXPECT_EQ(api->imports, 0);
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(Windows, OneThreadMakesThoseOfAllItsRanksInAGroup) {
  api->processes = false;
  std::array<ncclComm_t, 2> comms{};
  constexpr std::array devices{0, 0};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
  const Memory first, second, third, fourth;
  std::array<ncclWindow_t, 4> windows{};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms[0], first.data, bytes, &windows[0], 0), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms[0], second.data, bytes, &windows[1], 0), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms[1], third.data, bytes, &windows[2], 0), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms[1], fourth.data, bytes, &windows[3], 0), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (std::size_t i = 0; i < windows.size(); ++i)
    EXPECT_EQ(ncclCommWindowDeregister(comms[i / 2], windows[i]), ncclSuccess);
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Windows, OneMayBeDroppedBeforeItsGroupEnds) {
  on_threads(2, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const Memory memory;
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, &window, 0), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_FALSE(adds_straight(memory.floats(), 2, comm, stream));
  });
}

TEST_F(Windows, ThoseOfAGroupThatWasRefusedAreNone) {
  on_threads(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const Memory memory;
    ncclWindow_t first = nullptr, second = nullptr, window = nullptr;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, &window, 0), ncclSuccess);
    first = window;
    ASSERT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, &window, 0), ncclSuccess);
    second = window;
    EXPECT_EQ(ncclCommWindowDeregister(comm, second), ncclSuccess);  // once is enough
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(window, nullptr);
    for (const auto gone : {first, second})
      EXPECT_EQ(ncclCommWindowDeregister(comm, gone), ncclInvalidArgument);
    adds_straight(memory.floats(), 1, comm, stream);
  });
}

TEST_F(Windows, WhereMemoryCannotBeOpenedTheyAreWithoutEffect) {
  constexpr int ranks = 2;
  std::atomic<int> ready{0};
  on_threads(ranks, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const Memory memory;
    ++ready;
    while (ready < ranks) std::this_thread::yield();
    api->opens_descriptors = false;
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, &window, 0), ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_FALSE(adds_straight(memory.floats(), ranks, comm, stream));
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
  });
}

TEST_F(Windows, WrongUseIsRefused) {
  on_threads(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const Memory memory;
    ncclWindow_t window = nullptr;
    const auto registers = [&](void* data, std::size_t size, int flags = 0) {
      return ncclCommWindowRegister(comm, data, size, &window, flags);
    };
    EXPECT_EQ(registers(memory.data, bytes, 64), ncclInvalidArgument);
    expect_told("0x40 are no flags");
    EXPECT_EQ(registers(memory.data, 0), ncclInvalidArgument);
    EXPECT_EQ(registers(nullptr, bytes), ncclInvalidArgument);
    std::vector<float> host(count);
    EXPECT_EQ(registers(host.data(), bytes), ncclInvalidArgument);
    expect_told("a window is memory of device 0");
    api->set_device(1);
    const Floats elsewhere(*api, host);
    api->set_device(0);
    EXPECT_EQ(registers(elsewhere.data(), bytes), ncclInvalidArgument);
    EXPECT_EQ(window, nullptr);
    EXPECT_EQ(ncclCommWindowRegister(comm, memory.data, bytes, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowDeregister(comm, nullptr), ncclSuccess);
    // Of one kind each.
    void* handle = nullptr;
    ASSERT_EQ(ncclCommRegister(comm, memory.data, bytes, &handle), ncclSuccess);
    ASSERT_EQ(registers(memory.data, bytes), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(handle)), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(comm, window), ncclInvalidUsage);
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclInvalidArgument);
    // All is as before.
    adds_straight(memory.floats(), 1, comm, stream);
  });
}

TEST_F(Windows, MemoryThatWasFreedInOneIsRefused) {
  on_threads(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
    std::byte* const data = api->allocate(bytes);
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(comm, data, bytes, &window, 0), ncclSuccess) << ncclGetLastError(comm);
    api->free(data);
    EXPECT_EQ(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
    expect_told("was freed");
    api->pin(data, bytes);  // something else at its address
    EXPECT_EQ(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
    expect_told("was registered, then freed");
    api->unpin(data);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
  });
}

}  // namespace
}  // namespace tutti::test
