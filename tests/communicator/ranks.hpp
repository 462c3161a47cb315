/// \file
/// Ranks as threads that report what they threw, and as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"

namespace tutti::test {

using namespace std::chrono_literals;
using bootstrap::test::Child;
using bootstrap::test::Thrown;
using bootstrap::test::thrown_by;

inline Options over(std::string transport, std::chrono::milliseconds timeout = 30s) {
  Options options;
  options.transport = std::move(transport);
  options.timeout = timeout;
  return options;
}

/// What the first id of a process opens for good.
inline void open_what_stays_open() { bootstrap::drop_listener(UniqueId::create()); }
/// How many descriptors this process has.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

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

/// One process a rank. A child's exit code is 1 when an expectation failed in it; it has printed which.
inline std::vector<Child> fork_ranks(int ranks, const Options& options,
                                     const std::function<void(Communicator&)>& body) {
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  for (Rank rank = 0; rank < ranks; ++rank)
    children.emplace_back([&, rank] {
      try {
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

inline void run_processes(int ranks, const Options& options, const std::function<void(Communicator&)>& body) {
  auto children = fork_ranks(ranks, options, body);
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

/// Whether ranks may read each other's plain memory, by cross-memory attach.
inline bool has_attach(Communicator& comm) {
  const std::vector<std::uint8_t> in(std::size_t{1} << 20U);
  std::vector<std::uint8_t> out(in.size());
  return comm.explain({.operation = Operation::all_to_all,
                       .type = DataType::uint8,
                       .in = in.data(),
                       .out = out.data(),
                       .count = in.size() / static_cast<std::size_t>(comm.size())})
             .find("plain memory") != std::string::npos;
}

/// For test names.
inline std::string transport_name(const testing::TestParamInfo<const char*>& info) { return info.param; }
inline std::string transport_and_ranks(const testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

}  // namespace tutti::test
