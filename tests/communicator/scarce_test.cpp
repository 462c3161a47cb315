// Ranks that run out of memory or descriptors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tutti/window.hpp>

#include "base/mappings.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

/// All the memory that this process may have.
class NoMemory {
 public:
  NoMemory() {
    ::getrlimit(RLIMIT_AS, &usual_);
    const rlimit none{0, usual_.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
    for (std::size_t bytes = std::size_t{1} << 20U; bytes >= sizeof(void*); bytes /= 2)
      while (void* one = std::malloc(bytes)) {
        *static_cast<void**>(one) = held_;
        held_ = one;
      }
  }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory() {
    while (held_ != nullptr) std::free(std::exchange(held_, *static_cast<void**>(held_)));
    ::setrlimit(RLIMIT_AS, &usual_);
  }

 private:
  rlimit usual_{};
  void* held_ = nullptr;
};

// It keeps what it takes to say why.
TEST(Memory, ARankWithoutAnyLeftHasFailedForAll) {
  if (sanitized) GTEST_SKIP() << "sanitizers need memory themselves";
  std::vector<float> data(1000);
  const std::function<void(Communicator&)> parts[] = {
      [&](Communicator& comm) { comm.all_reduce(data); },
      [&](Communicator& comm) { comm.async().all_reduce(data).wait(); },
      [&](Communicator& comm) {
        auto group = comm.group();
        group.all_reduce(data);
        group.run();
      },
      [](Communicator& comm) { static_cast<void>(comm.allocate<float>(10)); },
      [](Communicator& comm) { static_cast<void>(comm.duplicate()); },
      [&](Communicator& comm) { const Window window(comm, std::as_writable_bytes(std::span(data))); },
  };
  for (const char* transport : {"shm", "tcp"})
    for (const auto& part : parts)
      run_processes(2, over(transport, 60s), [&](Communicator& comm) {
        comm.barrier();
        const auto thrown = thrown_by([&] {
          const auto none = comm.rank() == 1 ? std::make_unique<NoMemory>() : nullptr;
          part(comm);
        });
        EXPECT_TRUE(thrown.code);
        if (comm.rank() == 1) {
          EXPECT_THAT(thrown.text, HasSubstr("rank 1 is out of memory"));
        }
        EXPECT_EQ(thrown_by([&] { comm.barrier(); }).code, ErrorCode::aborted);
      });
}

// Not only that it has gone.
TEST(Memory, ARankWithoutAnyLeftToJoinTellsTheOthers) {
  if (sanitized) GTEST_SKIP() << "sanitizers need memory themselves";
  Options options = over("shm", 60s);
  constexpr std::size_t much = std::size_t{16} << 20U;
  options.algorithm.assign(much, '?');  // which ranks tell each other: enough for one copy is left
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  children.reserve(2);
  for (const Rank rank : {0, 1})
    children.emplace_back([&, rank] {
      std::size_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlimit limit{pages * page_bytes() + much * 3 / 2, RLIM_INFINITY};
      if (rank == 1) {
        EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
      }
      const auto thrown = thrown_by([&] { const Communicator comm(id, rank, 2, options); });
      EXPECT_EQ(thrown.code, rank == 1 ? ErrorCode::system : ErrorCode::aborted) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("rank 1 is out of memory"));
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(Descriptors, ARankWithoutAnyLeftEndsTheWaitOfTheOthers) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan reads objects through a pipe and takes its failure for a broken object";
#endif
  for (const char* transport : {"shm", "tcp"})
    run_processes(3, over(transport, 60s), [](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == 1) {
        const rlimit none{3, 3};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
      }
      const auto start = Clock::now();
      const auto thrown = thrown_by([&] { (void)comm.duplicate(); });
      EXPECT_TRUE(thrown.code) << "nothing failed";
      EXPECT_NE(thrown.code, ErrorCode::timeout) << thrown.text;
      EXPECT_NE(thrown.text.find("Too many open files"), std::string::npos) << thrown.text;
      EXPECT_LT(Clock::now() - start, 20s);
      EXPECT_EQ(thrown_by([&] { comm.barrier(); }).code, ErrorCode::aborted);
    });
}

// It is the reason, not the memory that was given.
TEST(Descriptors, WithoutAnyLeftMemoryCannotBeLookedAt) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan reads objects through a pipe and takes its failure for a broken object";
#endif
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::size_t bytes = std::size_t{1} << 20U;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    const rlimit none{3, usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto thrown = thrown_by([&] { (void)comm.register_memory(memory, bytes); });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_NE(thrown.text.find("ulimit -n"), std::string::npos) << thrown.text;
    comm.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
