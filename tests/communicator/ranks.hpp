/// \file
/// Ranks as threads that report what they threw, and as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"

namespace tutti::test {

using namespace std::chrono_literals;
using bootstrap::test::Child;
using bootstrap::test::open_descriptors;

inline Options over(std::string transport, std::chrono::milliseconds timeout = 30s) {
  Options options;
  options.transport = std::move(transport);
  options.timeout = timeout;
  return options;
}

/// What the first id of a process opens for good.
inline void open_what_stays_open() { bootstrap::drop_listener(UniqueId::create()); }

/// Memory that children share with the test.
template <class T>
class Shared {
 public:
  Shared() : at_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    new (at_) T{};
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(at_, sizeof(T)); }
  T* operator->() const { return static_cast<T*>(at_); }
  T& operator*() const { return *static_cast<T*>(at_); }

 private:
  void* at_;
};

/// What each rank's `body` threw, and when.
struct Outcome : Thrown {
  std::chrono::steady_clock::time_point at;
};
inline std::vector<Outcome> outcomes(int ranks, const Options& options,
                                     const std::function<void(Communicator&)>& body) {
  std::vector<Outcome> all(static_cast<std::size_t>(ranks));
  run_local(
      ranks,
      [&](Communicator& comm) {
        auto& mine = all[static_cast<std::size_t>(comm.rank())];
        static_cast<Thrown&>(mine) = thrown_by([&] { body(comm); });
        mine.at = std::chrono::steady_clock::now();
      },
      options);
  return all;
}

/// One process a rank, which does `first` before it joins. A child's exit code is 1 when an expectation
/// failed in it; it has printed which. What a child skips nobody learns: skip before.
inline std::vector<Child> fork_ranks(
    int ranks, const Options& options, const std::function<void(Communicator&)>& body,
    const std::function<void(Rank)>& first = [](Rank) {}) {
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  for (Rank rank = 0; rank < ranks; ++rank)
    children.emplace_back([&, rank] {
      try {
        first(rank);
        Communicator comm(id, rank, ranks, options);
        body(comm);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
  return children;
}

inline void run_processes(
    int ranks, const Options& options, const std::function<void(Communicator&)>& body,
    const std::function<void(Rank)>& first = [](Rank) {}) {
  auto children = fork_ranks(ranks, options, body, first);
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

/// Whether a process stands still, as by SIGSTOP.
inline bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return state == "T";
}

/// Whether the kernel lets children of this process read and write each other's memory, by cross-memory
/// attach: what it does, whatever the library makes of it.
inline bool kernel_permits_attach() {
  static const std::uint64_t word = 0x6174746163683FULL;
  const Child held([] { return ::pause(); });
  Child reader([&] {
    std::uint64_t got = 0;
    const iovec mine{&got, sizeof got}, theirs{const_cast<std::uint64_t*>(&word), sizeof word};
    if (::process_vm_readv(held.process(), &mine, 1, &theirs, 1, 0) != sizeof got || got != word) return 1;
    // The word is constant.
    return ::process_vm_writev(held.process(), &mine, 1, &theirs, 1, 0) < 0 && errno != EFAULT ? 1 : 0;
  });
  return reader.wait() == 0;
}

/// For test names.
inline std::string transport_name(const testing::TestParamInfo<const char*>& info) { return info.param; }
inline std::string transport_and_ranks(const testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

}  // namespace tutti::test
