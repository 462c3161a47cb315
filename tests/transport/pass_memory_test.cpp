// Shared memory on its way to the other processes of a host: who is late is named.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "local_group.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::transport::testing {

namespace {

constexpr std::chrono::milliseconds late_after{300};

/// Sockets are named by it, and the names of other tests that run now are others.
shm::Key new_key() {
  shm::Key key{};
  std::random_device random;
  for (std::byte& byte : key) byte = static_cast<std::byte>(random());
  return key;
}

void expect_late(const auto& action, ErrorCode code, const std::vector<Rank>& ranks,
                 const std::string& text) {
  try {
    action();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.ranks(), ranks);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(PassMemory, TheServerNamesWhoDidNotFetchIt) {
  const shm::Key key = new_key();
  const auto arena = shm::Arena::create(5);
  shm::ArenaServer server(key);
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
  expect_late(
      [&] {
        server.serve(*arena, {{fetches, {1, 2}}, {nobody, {4, 3}}}, late_after, {});
      },
      ErrorCode::timeout, {3, 4}, "ranks 3, 4 did not fetch the shared memory of this host in 300 ms");
  int status = -1;
  ASSERT_EQ(::waitpid(fetches, &status, 0), fetches);
  EXPECT_EQ(status, 0) << "it did not get the memory";
}

TEST(PassMemory, WhoFetchesNamesTheServerThatDoesNotAnswer) {
  const shm::Key key = new_key();
  const shm::ArenaServer server(key);
  expect_late([&] { shm::attach_arena(key, 5, 3, late_after, {}); }, ErrorCode::timeout, {3},
              "rank 3 did not pass the shared memory of this host in 300 ms");
}

TEST(PassMemory, WhoFetchesNamesTheServerThatRefuses) {
  const shm::Key key = new_key();
  const FileDescriptor listener = shm::listen_for(key);
  const std::jthread server([&] { shm::accept_from(listener.get(), key); });
  expect_late([&] { shm::attach_arena(key, 5, 3, std::chrono::seconds(10), {}); }, ErrorCode::unauthorized,
              {3}, "rank 3");
}

TEST(PassMemory, RanksThatDoNotPassTheirsAreNamed) {
  const shm::Key key = new_key();
  auto groups = local_groups(3);
  groups[0].timeout = late_after;
  const auto arena = shm::Arena::create(2);
  const auto exchange = [&](std::size_t rank, const std::vector<Rank>& peers) {
    return shm::exchange_descriptors(groups[rank], arena->fd(), peers);
  };
  const FileDescriptor listener = shm::listen_for(key);
  std::jthread one([&] { exchange(1, {0}); });
  std::jthread two([&] { groups[2].all_gather(key); });  // and never connects
  expect_late(
      [&] {
        exchange(0, {1, 2});
      },
      ErrorCode::timeout, {2}, "rank 2 did not pass memory to others of this host in 300 ms");
}

}  // namespace

}  // namespace tutti::transport::testing
