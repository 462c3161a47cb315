// Shared memory on its way to the other processes of a host: who is late is named.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "base/memory_file.hpp"
#include "local_group.hpp"
#include "thrown.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/descriptor.hpp"
#include "transport/shm/keyed_socket.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::transport::testing {

namespace {

constexpr std::chrono::milliseconds late_after{300};
constexpr std::chrono::milliseconds late_for_all{3000};  // others must be done by then

/// Sockets are named by it, and the names of other tests that run now are others.
shm::Key new_key() {
  shm::Key key{};
  std::random_device random;
  for (std::byte& byte : key) byte = static_cast<std::byte>(random());
  return key;
}

/// Says nothing.
FileDescriptor stranger_at(const shm::Key& key) {
  return shm::call(key, 0, Deadline(std::chrono::seconds(10)));
}

FileDescriptor rank_at(const shm::Key& key) {
  return shm::connect_to(key, 0, Deadline(std::chrono::seconds(10)));
}

void expect_thrown(const auto& action, ErrorCode code, const std::vector<Rank>& ranks,
                   const std::string& text) {
  const auto error = test::thrown_by(action);
  EXPECT_EQ(error.code, code);
  EXPECT_EQ(error.ranks, ranks);
  EXPECT_NE(error.text.find(text), std::string::npos) << error.text;
}

TEST(PassMemory, TheServerNamesWhoDidNotFetchIt) {
  const shm::Key key = new_key();
  const auto arena = shm::Arena::create(5);
  shm::Listener listener(key);
  const pid_t fetches = ::fork();
  if (fetches == 0) {
    try {
      shm::attach_arena(key, 5, 0, std::chrono::seconds(10), {});
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  ASSERT_GT(fetches, 0);
  const pid_t nobody = -5;
  expect_thrown(
      [&] {
        shm::serve_arena(listener, *arena, {{fetches, {1, 2}}, {nobody, {4, 3}}}, late_for_all, {});
      },
      ErrorCode::timeout, {3, 4}, "ranks 3, 4 did not fetch the shared memory of this host in 3000 ms");
  int status = -1;
  ASSERT_EQ(::waitpid(fetches, &status, 0), fetches);
  EXPECT_EQ(status, 0) << "it did not get the memory";
}

/// What a rank says of itself, but for the word that others try to read: that of another copy of the library.
std::vector<std::byte> as_of_another_copy(std::span<const std::byte> said) {
  static const std::uint64_t word = 0x7475747469ULL;
  std::vector<std::byte> says(said.begin(), said.end());
  for (std::size_t at = 0; at + sizeof word <= said.size(); at += sizeof word) {
    std::uint64_t address = 0, value = 0;
    std::memcpy(&address, said.data() + at, sizeof address);
    const iovec here{&value, sizeof value};
    const iovec there{reinterpret_cast<void*>(address), sizeof value};  // NOLINT(performance-no-int-to-ptr)
    if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof value || value != word) continue;
    address = reinterpret_cast<std::uintptr_t>(&word);
    std::memcpy(says.data() + at, &address, sizeof address);
  }
  return says;
}

// Both have the arena of their own copy, or none.
TEST(PassMemory, TwoCopiesOfTheLibraryInOneProcessAreToldSo) {
  std::uint64_t from = 1, to = 0;
  const iovec here{&to, sizeof to}, there{&from, sizeof from};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof to)
    GTEST_SKIP() << "no cross-memory attach here";
  auto groups = local_groups(2);
  groups[1].all_gather = [said = groups[1].all_gather](std::span<const std::byte> mine) {
    return said(as_of_another_copy(mine));
  };
  std::vector<std::jthread> threads;
  threads.reserve(groups.size());
  for (const Group& group : groups)
    threads.emplace_back([&group] {
      const auto make = [&group] { const shm::ShmTransport made(group, false); };
      if (group.rank == 0)
        expect_thrown(make, ErrorCode::unsupported, {1}, "another copy of the library");
      else  // which is none in its own eyes
        EXPECT_THROW(make(), Error);
    });
}

// As in another process-id namespace, where /proc, by which ranks tell them apart, is not mounted.
TEST(PassMemory, TheServerDoesNotWaitForAProcessThatHasAnotherNumberHere) {
  const shm::Key key = new_key();
  const auto arena = shm::Arena::create(3);
  shm::Listener listener(key);
  const FileDescriptor comes = rank_at(key);
  const pid_t says = ::getpid() + 1;
  expect_thrown(
      [&] {
        shm::serve_arena(listener, *arena, {{says, {2, 1}}}, std::chrono::seconds(60), {});
      },
      ErrorCode::unsupported, {1, 2}, "mounted");
}

// As the first processes of two such namespaces.
TEST(PassMemory, AnotherProcessOfTheSameNumberIsNotTakenForThisOne) {
  const shm::Key key = new_key();
  int checks = 0;
  expect_thrown([&] { shm::require_arena(key, 3, [&] { ++checks; }); }, ErrorCode::unsupported, {3},
                "mounted");
  EXPECT_GT(checks, 0);
  const auto arena = shm::Arena::create(3);
  shm::publish_arena(key, arena);
  shm::require_arena(key, 3, {});
}

TEST(PassMemory, WhoFetchesNamesTheServerThatDoesNotAnswer) {
  const shm::Key key = new_key();
  const shm::Listener listener(key);
  expect_thrown([&] { shm::attach_arena(key, 5, 3, late_after, {}); }, ErrorCode::timeout, {3},
                "rank 3 did not pass the shared memory of this host in 300 ms");
}

TEST(PassMemory, WhoFetchesNamesTheServerThatRefuses) {
  const shm::Key key = new_key();
  shm::Listener listener(key);
  const std::jthread server([&] { listener.accept(Deadline(std::chrono::seconds(10))); });
  expect_thrown([&] { shm::attach_arena(key, 5, 3, std::chrono::seconds(10), {}); }, ErrorCode::unauthorized,
                {3}, "rank 3");
}

// A process may make several communicators at once, in threads, and a rank of one of them may be stopped.
TEST(PassMemory, WhoWaitsForItKeepsNoOtherCommunicatorOfItsProcessWaiting) {
  const shm::Key late = new_key();
  const shm::Listener silent(late);
  std::atomic<bool> waits{false}, may_end{false}, over{false};
  struct Ended {};
  const std::jthread waiting([&] {
    const auto check = [&] {
      waits = true;
      waits.notify_all();
      if (may_end) throw Ended{};
    };
    EXPECT_THROW(shm::attach_arena(late, 5, 0, std::chrono::seconds(10), check), Ended);
    over = true;
  });
  waits.wait(false);
  const shm::Key key = new_key();
  const auto arena = shm::Arena::create(5);
  shm::publish_arena(key, arena);
  EXPECT_EQ(shm::attach_arena(key, 5, 0, std::chrono::seconds(10), {}), arena);
  // Nor another rank of its own for longer than that one has.
  expect_thrown([&] { shm::attach_arena(late, 5, 0, late_after, {}); }, ErrorCode::timeout, {0},
                "rank 0 did not pass the shared memory of this host in 300 ms");
  EXPECT_FALSE(over);
  may_end = true;
}

TEST(PassMemory, RanksOfOneProcessFetchItOnce) {
  const shm::Key key = new_key();
  const auto arena = shm::Arena::create(3);
  shm::Listener listener(key);
  std::vector<std::shared_ptr<shm::Arena>> theirs(2);
  {
    std::vector<std::jthread> threads;
    threads.reserve(theirs.size());
    for (auto& mine : theirs)
      threads.emplace_back([&] { mine = shm::attach_arena(key, 3, 0, std::chrono::seconds(10), {}); });
    shm::serve_arena(listener, *arena, {{::getpid(), {1, 2}}}, std::chrono::seconds(10), {});
  }
  EXPECT_NE(theirs[0], nullptr);
  EXPECT_EQ(theirs[0], theirs[1]);
}

// Where its processor is taken away between the two, that takes any time.
TEST(PassMemory, WhoTellsTheKeyLateIsServed) {
  const shm::Key key = new_key();
  shm::Listener listener(key);
  const std::jthread slow([&] {
    const FileDescriptor connection = stranger_at(key);
    std::this_thread::sleep_for(3 * late_after);
    EXPECT_EQ(::send(connection.get(), key.data(), key.size(), 0), static_cast<ssize_t>(key.size()));
    std::byte end{};
    EXPECT_EQ(::recv(connection.get(), &end, 1, 0), 0) << "the other one has closed it";
  });
  EXPECT_TRUE(listener.accept(Deadline(std::chrono::seconds(10))));
}

TEST(PassMemory, StrangersKeepNobodyWaiting) {
  const shm::Key key = new_key();
  shm::Listener listener(key);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 300; ++i) {
    // More than the system queues: some are taken in between.
    if (i % 100 == 99) {
      EXPECT_FALSE(listener.accept(Deadline(std::chrono::milliseconds(1))));
    }
    strangers.push_back(stranger_at(key));
    const char other[] = "something else";
    if (i % 2 == 1) {
      EXPECT_EQ(::send(strangers.back().get(), other, sizeof other, 0), static_cast<ssize_t>(sizeof other));
    }
  }
  const FileDescriptor rank = rank_at(key);
  const FileDescriptor accepted = listener.accept(Deadline(std::chrono::seconds(10)));
  ASSERT_TRUE(accepted);
  EXPECT_EQ(::send(accepted.get(), "yes", 3, 0), 3);
  char answer[4] = "";
  EXPECT_EQ(::recv(rank.get(), answer, 3, 0), 3);
  EXPECT_STREQ(answer, "yes");
}

// More than are listened to at once.
TEST(PassMemory, ManyRanksThatCallAtOnceAreAllServed) {
  const shm::Key key = new_key();
  shm::Listener listener(key);
  constexpr int many = 300;
  int most_waiting = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> most_waiting;
  if (most_waiting < many) GTEST_SKIP() << "net.core.somaxconn lets only " << most_waiting << " wait";
  std::vector<FileDescriptor> ranks;
  ranks.reserve(many);
  for (int i = 0; i < many; ++i) ranks.push_back(rank_at(key));
  const Deadline deadline(std::chrono::seconds(10));
  int served = 0;
  while (served < many && listener.accept(deadline)) ++served;
  EXPECT_EQ(served, many);
}

// As many wait there as may, which is one where listen(2) is told of none.
TEST(PassMemory, WhoFindsNoRoomToWaitInGivesUpInTime) {
  const shm::Key key = new_key();
  sockaddr_un name{};
  socklen_t length = sizeof name;
  {
    const shm::Listener listener(key);
    const FileDescriptor caller = stranger_at(key);
    ASSERT_EQ(::getpeername(caller.get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
  }
  const FileDescriptor narrow(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(narrow.get(), reinterpret_cast<const sockaddr*>(&name), length), 0);
  ASSERT_EQ(::listen(narrow.get(), 0), 0);
  const FileDescriptor waits = stranger_at(key);
  int checks = 0;
  expect_thrown(
      [&] {
        shm::connect_to(key, 3, {Deadline(late_after), [&] { ++checks; }});
      },
      ErrorCode::timeout, {3}, "rank 3 of this host did not accept a connection to its Unix socket in time");
  EXPECT_GT(checks, 0);
  FileDescriptor taken;
  const auto make_room = [&] {
    if (!taken) taken = FileDescriptor(::accept(narrow.get(), nullptr, nullptr));
  };
  EXPECT_TRUE(shm::connect_to(key, 3, {Deadline(std::chrono::seconds(10)), make_room}));
  EXPECT_TRUE(taken);
}

// One after the other, so that there is always another one.
TEST(PassMemory, StrangersDoNotPutOffTheDeadline) {
  const shm::Key key = new_key();
  shm::Listener listener(key);
  std::atomic<bool> over = false;
  const std::jthread strangers([&] {
    while (!over) {
      const FileDescriptor stranger = stranger_at(key);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  int checks = 0;
  const Deadline long_after(std::chrono::seconds(20));
  EXPECT_FALSE(listener.accept({Deadline(late_after), [&] { ++checks; }}));
  over = true;
  EXPECT_FALSE(long_after.passed());
  EXPECT_GT(checks, 1);
}

TEST(PassMemory, EveryRankGetsThoseOfItsPeers) {
  constexpr int ranks = 20;  // more than pass theirs at once
  const auto groups = local_groups(ranks);
  const auto exchange = [&](Rank rank) {
    constexpr Rank alone = 3;
    std::vector<Rank> peers, from;
    for (Rank r = 0; r < ranks; ++r)
      if (r != rank && r != alone && rank != alone) peers.push_back(r);
    const FileDescriptor mine = make_memory_file("tutti-test");
    EXPECT_EQ(::ftruncate(mine.get(), rank), 0);
    const auto& group = groups[static_cast<std::size_t>(rank)];
    for (const auto& passed : shm::exchange_descriptors(group, mine.get(), peers)) {
      struct stat status {};
      EXPECT_EQ(::fstat(passed.descriptor.get(), &status), 0);
      EXPECT_EQ(status.st_size, passed.from);
      from.push_back(passed.from);
    }
    std::ranges::sort(from);
    EXPECT_EQ(from, peers);
  };
  std::vector<std::jthread> others;
  for (Rank rank = 1; rank < ranks; ++rank) others.emplace_back(exchange, rank);
  exchange(0);
}

TEST(PassMemory, WhatDoesNotGetThroughIsToldToAll) {
  const auto groups = local_groups(3);
  const auto arena = shm::Arena::create(2);
  const auto expect_told = [&](std::size_t rank, int fd, const std::vector<Rank>& peers) {
    expect_thrown([&] { shm::exchange_descriptors(groups[rank], fd, peers); }, ErrorCode::system, {1},
                  "rank 1: cannot pass memory to a rank of this host");
  };
  const std::jthread has_none([&] { expect_told(1, -1, {0}); });
  const std::jthread has_no_peers([&] { expect_told(2, arena->fd(), {}); });
  expect_told(0, arena->fd(), {1});
}

TEST(PassMemory, RanksThatDoNotPassTheirsAreNamed) {
  auto groups = local_groups(3);
  groups[0].timeout = late_after;
  const auto arena = shm::Arena::create(2);
  const auto expect_late = [&](std::size_t rank, const std::vector<Rank>& peers) {
    expect_thrown([&] { shm::exchange_descriptors(groups[rank], arena->fd(), peers); }, ErrorCode::timeout,
                  {0}, "rank 0: rank 2 did not pass memory to others of this host in 300 ms");
  };
  const std::jthread one([&] { expect_late(1, {0}); });
  const std::jthread two([&] { expect_late(2, {}); });  // and never connects
  expect_late(0, {1, 2});
}

}  // namespace

}  // namespace tutti::transport::testing
