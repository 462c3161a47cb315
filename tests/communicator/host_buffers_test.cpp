// Memory of a CUDA device in calls on host memory, by a library that stands in for CUDA's driver.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include <tutti/local.hpp>
#include <tutti/window.hpp>

#include "base/mappings.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

constexpr unsigned type_host = 1, type_device = 2;

class HostBuffers : public testing::Test {
 protected:
  HostBuffers() : library_(::dlopen(TUTTI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)) {
    find(add, "fake_cuda_add");
    find(clear, "fake_cuda_clear");
    find(questions, "fake_cuda_questions");
  }
  ~HostBuffers() override { clear(); }
  void SetUp() override {  // who asks for the driver by its name gets the one that was loaded first
    void* const found = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (found != library_) GTEST_SKIP() << "CUDA's own driver is loaded in this process";
    ::dlclose(found);
  }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(name);
  }
  /// The vector passes for memory of a device from now on.
  void plant(const std::vector<float>& memory) const {
    add(memory.data(), memory.size() * sizeof(float), type_device, false);
  }

  void (*add)(const void*, std::uint64_t, unsigned, bool) = nullptr;
  void (*clear)() = nullptr;
  int (*questions)() = nullptr;

 private:
  void* library_;
};

void expect_refused(const std::function<void()>& call, const char* text) {
  const auto error = thrown_by(call);
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.text, HasSubstr(text));
}

TEST_F(HostBuffers, DeviceMemoryIsRefusedBeforeAnythingIsSent) {
  run_local(2, [&](Communicator& comm) {
    std::vector<float> host(100, 1), device(100);
    plant(device);
    expect_refused([&] { comm.all_reduce(std::span<const float>(device), std::span(host)); },
                   "the input is memory of a CUDA device");
    expect_refused([&] { comm.all_reduce(std::span<const float>(host), std::span(device)); },
                   "the output is memory of a CUDA device");
    expect_refused([&] { comm.all_reduce(std::span(device)); }, "gpu.on(stream)");
    expect_refused([&] { static_cast<void>(comm.async().all_reduce(std::span(device))); }, "CUDA device");
    auto group = comm.group();
    expect_refused([&] { group.all_reduce(std::span(device)); }, "CUDA device");
    if (comm.rank() == 0)
      expect_refused([&] { comm.send(std::span<const float>(device), 1); }, "CUDA device");
    else
      expect_refused([&] { comm.receive(std::span(device), 0); }, "CUDA device");
    expect_refused(
        [&] { static_cast<void>(comm.register_memory(device.data(), device.size() * sizeof(float))); },
        "CUDA device");
    expect_refused([&] { const Window window(comm, std::as_writable_bytes(std::span(device))); },
                   "CUDA device");
    comm.all_reduce(std::span(host));  // all is as before
    EXPECT_EQ(host, std::vector<float>(100, 2));
  });
}

TEST_F(HostBuffers, ABufferWithoutElementsMayBeAnything) {
  run_local(2, [&](Communicator& comm) {
    std::vector<float> host(10, 3), device(10);
    plant(device);
    comm.broadcast(comm.rank() == 0 ? host.data() : device.data(), host.data(), host.size(),
                   DataType::float32, 0);
    EXPECT_EQ(host, std::vector<float>(10, 3));
  });
}

TEST_F(HostBuffers, ManagedAndPageLockedMemoryIsTakenAlsoBetweenProcesses) {
  run_processes(2, Options{}, [&](Communicator& comm) {
    constexpr std::size_t count = 300'000;
    const auto reduce = [&](const Buffer<float>& buffer) {
      std::fill(buffer.begin(), buffer.end(), 2.0F);
      for (int time = 0; time < 3; ++time) comm.all_reduce(buffer.span(), ReduceOp::max);
      EXPECT_EQ(std::count(buffer.begin(), buffer.end(), 2.0F), count);
      return comm.stats().bytes_direct;
    };
    const auto plain = comm.allocate<float>(count), managed = comm.allocate<float>(count),
               pinned = comm.allocate<float>(count);
    add(managed.data(), count * sizeof(float), type_device, true);
    add(pinned.data(), count * sizeof(float), type_host, false);
    const auto direct = reduce(plain);
    EXPECT_GT(direct, 0U);
    EXPECT_EQ(reduce(managed), direct);  // by messages
    EXPECT_EQ(reduce(pinned), direct);
    const auto explained = [&](const Buffer<float>& buffer) {
      return comm.explain({.operation = Operation::all_reduce,
                           .type = DataType::float32,
                           .in = buffer.data(),
                           .out = buffer.data(),
                           .count = count});
    };
    EXPECT_THAT(explained(plain), HasSubstr("zero copy: direct, if "));
    for (const auto* buffer : {&managed, &pinned})
      EXPECT_THAT(explained(*buffer), HasSubstr("zero copy: no: CUDA has pinned a buffer here"));
  });
}

/// Memory that no other process may read.
class SecretMemory {
 public:
  explicit SecretMemory(std::size_t bytes) : bytes_(bytes) {
#ifdef SYS_memfd_secret
    descriptor_ = FileDescriptor(static_cast<int>(::syscall(SYS_memfd_secret, 0)));
    if (!descriptor_ || ::ftruncate(descriptor_.get(), static_cast<off_t>(bytes)) != 0) return;
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
#endif
  }
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;
  ~SecretMemory() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  [[nodiscard]] bool exists() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::span<float> floats() const {
    return {static_cast<float*>(data_), bytes_ / sizeof(float)};
  }

 private:
  FileDescriptor descriptor_;
  void* data_ = MAP_FAILED;
  std::size_t bytes_;
};

TEST(MemoryThatNobodyMayRead, GoesByMessages) {
  constexpr std::size_t bytes = std::size_t{128} << 10;
  if (!SecretMemory(bytes).exists()) GTEST_SKIP() << "this system has no memfd_secret, or no room in it";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const SecretMemory secret(bytes);
    const auto mine = secret.floats();
    std::vector<float> plain(mine.size()), all(2 * mine.size());
    const Rank other = 1 - comm.rank();
    for (int time = 1; time <= 40; ++time) {  // longer than a trial
      std::fill(mine.begin(), mine.end(), static_cast<float>(time + comm.rank()));
      comm.all_gather(std::span<const float>(mine), std::span(all));
      ASSERT_EQ(std::count(all.begin(), all.end(), static_cast<float>(time)), mine.size());
      ASSERT_EQ(std::count(all.begin(), all.end(), static_cast<float>(time + 1)), mine.size());
      Group group = comm.group();
      group.send(std::span<const float>(mine), other);
      group.receive(std::span(plain), other);
      group.run();
      ASSERT_EQ(std::count(plain.begin(), plain.end(), static_cast<float>(time + other)), mine.size());
    }
    std::fill(mine.begin(), mine.end(), 1.0F);
    comm.all_reduce(mine);
    EXPECT_EQ(std::count(mine.begin(), mine.end(), 2.0F), mine.size());
  });
}

TEST(MemoryThatNobodyMayRead, GoesByMessagesInBlocksOfSomeSize) {
  static constexpr std::size_t block = 20'000, bytes = 3 * block * sizeof(float);
  if (!SecretMemory(bytes).exists()) GTEST_SKIP() << "this system has no memfd_secret, or no room in it";
  run_processes(3, over("shm"), [](Communicator& comm) {
    const SecretMemory secret(bytes);
    const auto mine = secret.floats().first(3 * block);
    const std::vector<std::size_t> counts(3, block);
    std::vector<float> all(mine.size());
    for (int time = 1; time <= 60; ++time) {  // longer than a trial
      std::fill(mine.begin(), mine.end(), static_cast<float>(time + comm.rank()));
      comm.all_to_all_v(std::span<const float>(mine), counts, {}, std::span(all), counts, {});
      for (const int from : {0, 1, 2})
        ASSERT_EQ(std::count(all.begin(), all.end(), static_cast<float>(time + from)), block) << time;
    }
    EXPECT_EQ(comm.stats().bytes_direct, 0U);
  });
}

/// A window of such memory on each of two ranks. Its quarters: what is got, where that goes, what is put, and
/// where that goes.
void expect_window_by_its_owner(Communicator& comm, std::span<float> memory) {
  const std::size_t floats = memory.size() / 4, bytes = floats * sizeof(float);
  const Rank other = 1 - comm.rank();
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    const auto part = memory.subspan(quarter * floats, floats);
    std::fill(part.begin(), part.end(), static_cast<float>(10 * quarter) + static_cast<float>(comm.rank()));
  }
  Window window(comm, memory);
  EXPECT_THAT(window.path(other), testing::StartsWith("tcp to "));
  EXPECT_THAT(window.path(other), HasSubstr("that the kernel lends to none, or CUDA's"));
  window.get(other, {.local = bytes, .remote = 0, .bytes = bytes}).wait();
  EXPECT_EQ(std::ranges::count(memory.subspan(floats, floats), static_cast<float>(other)), floats);
  window.put(other, {.local = 2 * bytes, .remote = 3 * bytes, .bytes = bytes}, {.notify = 0});
  window.wait_notification(0, 1, other);
  EXPECT_EQ(std::ranges::count(memory.subspan(3 * floats, floats), static_cast<float>(20 + other)), floats);
  window.flush();
  comm.barrier();
}

TEST(MemoryThatNobodyMayRead, OfAWindowIsReachedByItsOwner) {
  constexpr std::size_t bytes = std::size_t{128} << 10;
  if (!SecretMemory(bytes).exists()) GTEST_SKIP() << "this system has no memfd_secret, or no room in it";
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const SecretMemory secret(bytes);
    expect_window_by_its_owner(comm, secret.floats());
  });
}

TEST_F(HostBuffers, OfAWindowThatADeviceHasPinnedAreReachedByTheirOwner) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [&](Communicator& comm) {
    std::vector<float> plain(1000), pinned(1000);
    add(pinned.data(), pinned.size() * sizeof(float), type_host, false);
    {
      const Window window(comm, std::span(plain));
      EXPECT_THAT(window.path(1 - comm.rank()), testing::StartsWith("cross-memory attach"));
      comm.barrier();
    }
    expect_window_by_its_owner(comm, pinned);
  });
}

TEST_F(HostBuffers, WhatIsSentOfItIsCopied) {
  run_processes(2, Options{}, [&](Communicator& comm) {
    constexpr std::size_t count = 300'000;
    const auto plain = comm.allocate<float>(count), pinned = comm.allocate<float>(count);
    add(pinned.data(), count * sizeof(float), type_host, false);
    const auto pass = [&](const Buffer<float>& buffer) {
      std::fill(buffer.begin(), buffer.end(), comm.rank() == 0 ? 3.0F : 0.0F);
      if (comm.rank() == 0) comm.send(std::span<const float>(buffer.span()), 1);
      if (comm.rank() == 1) comm.receive(buffer.span(), 0);
      EXPECT_EQ(std::count(buffer.begin(), buffer.end(), 3.0F), count);
      return comm.stats().bytes_direct;
    };
    const auto direct = pass(plain);
    EXPECT_EQ(direct, comm.rank() == 1 ? count * sizeof(float) : 0);
    EXPECT_EQ(pass(pinned), direct);
    EXPECT_GE(pass(plain), direct);
  });
}

// Also where nobody waits at once.
TEST_F(HostBuffers, WhatIsSentOfItBesideOtherWorkIsCopied) {
  run_processes(2, Options{}, [&](Communicator& comm) {
    constexpr std::size_t count = 300'000;
    const auto plain = comm.allocate<float>(count), pinned = comm.allocate<float>(count);
    add(pinned.data(), count * sizeof(float), type_host, false);
    const auto pass = [&](const Buffer<float>& buffer) {
      std::fill(buffer.begin(), buffer.end(), comm.rank() == 0 ? 3.0F : 0.0F);
      Async async = comm.async();
      if (comm.rank() == 0) async.send(std::span<const float>(buffer.span()), 1).wait();
      if (comm.rank() == 1) async.receive(buffer.span(), 0).wait();
      EXPECT_EQ(std::count(buffer.begin(), buffer.end(), 3.0F), count);
      return comm.stats().bytes_direct;
    };
    const auto direct = pass(plain);
    EXPECT_EQ(direct, comm.rank() == 1 ? count * sizeof(float) : 0);
    EXPECT_EQ(pass(pinned), direct);
  });
}

TEST_F(HostBuffers, WhatADeviceHasPinnedIsNotReplaced) {
  run_processes(2, Options{}, [&](Communicator& comm) {
    const std::size_t bytes = 16 * page_bytes();
    const std::unique_ptr<void, void (*)(void*)> pages(std::aligned_alloc(page_bytes(), bytes), std::free);
    add(pages.get(), bytes, type_host, false);
    const auto thrown = thrown_by([&] { static_cast<void>(comm.register_memory(pages.get(), bytes)); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
    EXPECT_NE(thrown.text.find("pinned"), std::string::npos) << thrown.text;
    comm.barrier();
  });
}

TEST_F(HostBuffers, ABufferIsLookedAtOnce) {
  run_local(1, [&](Communicator& comm) {
    std::vector<float> buffer(10, 1);
    comm.all_reduce(std::span(buffer));
    const int before = questions();
    for (int time = 0; time < 10; ++time) comm.all_reduce(std::span(buffer));
    EXPECT_EQ(questions(), before);
  });
}

TEST_F(HostBuffers, NeighboursAreLookedAtOnce) {
  run_local(1, [&](Communicator& comm) {
    alignas(64) std::array<float, 16> line{};
    int before = 0;
    for (int time = 0; time < 10; ++time) {
      for (std::size_t i = 1; i < line.size(); ++i)
        comm.all_reduce(std::span<const float>(line).first(1), std::span(line).subspan(i, 1));
      if (time == 0) before = questions();
    }
    // Two of them may share a place, but input and output never do.
    EXPECT_LT(questions() - before, 9 * 15 * 2 / 2);
  });
}

}  // namespace
}  // namespace tutti::test
