// A communicator across two hosts, with nothing said about transports.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <tutti/tutti.hpp>
#include <vector>

#include "traffic.hpp"
#include "two_hosts.hpp"

namespace tutti::transport::testing {

namespace {

void started_by_torchrun(Rank rank) {
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"RANK", std::to_string(rank)},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "0"},
                                    {"LOCAL_WORLD_SIZE", "1"},
                                    {"MASTER_ADDR", "10.77.0.1"},
                                    {"MASTER_PORT", "29777"},
                                    {"TUTTI_INTERFACE", "eth0"}})
    ::setenv(name, value.c_str(), 1);
}

void collectives(Rank rank, int /*socket*/) {
  started_by_torchrun(rank);
  Options options = Options::from_environment();
  options.timeout = std::chrono::seconds(20);
  Communicator comm = Communicator::from_environment(options);
  require(comm.local_rank() == 0 && comm.local_size() == 1, "another rank is taken for one of this host");
  require(comm.host() == rank && comm.hosts() == 2, "hosts are miscounted");
  const Call call{.operation = Operation::all_reduce, .type = DataType::int64, .count = 1};
  std::int64_t one = 1;
  for (const std::size_t count : {1U, 1000U, 300'000U}) {
    std::vector<std::int64_t> values(count, rank + 1);
    comm.all_reduce(std::span(values));
    require(values == std::vector<std::int64_t>(count, 3), "wrong sum of " + std::to_string(count));
  }
  Call asked = call;
  asked.in = asked.out = &one;
  const std::string why = comm.explain(asked);
  require(why.find(": tcp: tcp via eth0 10.77.0.") != std::string::npos, why);
  require(why.find(" (shm: not on this host") != std::string::npos, why);
  require(why.find("; verbs: ") != std::string::npos, "why RDMA was refused is not said: " + why);
  std::vector<std::int64_t> memory(8);
  const Window window(comm, memory);
  const std::string way = window.path(1 - rank);
  require(way.find(", because: verbs: ") != std::string::npos, "why not by RDMA is not said: " + way);
  Communicator other = comm.duplicate();
  other.barrier();
  comm.barrier();
}

void call_ip(const std::string& arguments) {
  require(std::system(("ip " + arguments).c_str()) == 0, arguments);  // NOLINT(cert-env33-c)
}

// Data have addresses of their own, so that they are delayed and the goodbye is not.
Options with_data_apart(Rank host) {
  Options options = Options::from_environment();
  options.interface = "10.77.1." + std::to_string(host + 1);
  options.timeout = std::chrono::seconds(20);
  call_ip("addr add " + options.interface + "/24 dev eth0");
  return options;
}

void last_message(Rank rank, int /*socket*/) {
  started_by_torchrun(rank);
  const Options options = with_data_apart(rank);
  Communicator comm = Communicator::from_environment(options);
  auto child = std::make_optional(comm.duplicate());
  std::array<int, 1> value{};
  child->broadcast(value, 0);  // connects
  comm.barrier();
  if (rank == 0) call_ip("route add blackhole 10.77.1.2");
  value[0] = rank == 0 ? 7 : 0;
  child->broadcast(value, 0);
  require(value[0] == 7, "the last message is wrong");
  child.reset();
  if (rank == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // longer than who has left is waited for
    call_ip("route del blackhole 10.77.1.2");
  }
  comm.barrier();
}

TEST(Hosts, WhatALeavingRankSentLastArrivesAlthoughItsPacketsGotLost) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(last_message), "");
}

UniqueId id_of_both(Rank host, int socket) {
  UniqueId id;
  if (host == 0) id = UniqueId::create("10.77.0.1");
  const auto moved = host == 0 ? ::send(socket, id.bytes.data(), id.bytes.size(), 0)
                               : ::recv(socket, id.bytes.data(), id.bytes.size(), 0);
  require(moved == static_cast<ssize_t>(id.bytes.size()), "the other host is gone");
  return id;
}

// Ranks 0 and 2 on one host, on the other one the root, whose step awaits both. It hears of the goodbye of
// rank 2 while it computes, and has not looked for its message yet: that of rank 0, which is late, comes
// first.
void one_of_several(Rank host, int socket) {
  using namespace std::chrono_literals;
  constexpr Rank root = 1, late = 0, leaving = 2;
  Options options = with_data_apart(host);
  options.algorithm = "all_pairs";
  const UniqueId id = id_of_both(host, socket);
  const auto body = [&](Rank rank) {
    Communicator comm(id, rank, 3, options);
    auto child = std::make_optional(comm.duplicate());
    const std::array<int, 1> in{rank + 1};
    std::vector<int> sum(rank == root ? 1 : 0);
    child->reduce(in, sum, root);  // connects
    comm.barrier();
    if (rank == root) {
      Work work = child->async().reduce(in, sum, root);
      while (!work.test())
        for (int i = 0; i < 15; ++i) {
          comm.check();
          std::this_thread::sleep_for(10ms);
        }
      require(sum[0] == 6, "the sum is wrong");
    } else {
      if (rank == leaving) call_ip("route add blackhole 10.77.1.2");
      if (rank == late) std::this_thread::sleep_for(1s);
      child->reduce(in, sum, root);
    }
    child.reset();
    if (rank == leaving) {
      std::this_thread::sleep_for(600ms);
      call_ip("route del blackhole 10.77.1.2");
    }
    comm.barrier();
  };
  if (host == 1) return body(root);
  auto other = std::async(std::launch::async, body, leaving);
  body(late);
  other.get();
}

TEST(Hosts, SoDoesWhatOneOfSeveralSentWhomAStepAwaits) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(one_of_several), "");
}

// Rank 0 receives from rank 2, of its host, much longer than it takes to send to the other host what its
// sockets do not take at once.
void long_beside_short(Rank host, int socket) {
  constexpr Rank busy = 0, far = 1, near = 2;
  constexpr std::size_t much = std::size_t{256} << 20U, more_than_sockets_take = std::size_t{16} << 20U;
  using Clock = std::chrono::steady_clock;
  Options options = Options::from_environment();
  options.interface = "eth0";
  options.timeout = std::chrono::seconds(20);
  const UniqueId id = id_of_both(host, socket);
  Clock::time_point near_done;
  const auto body = [&](Rank rank) {
    Communicator comm(id, rank, 3, options);
    std::vector<std::uint8_t> far_data(rank == near ? 0 : more_than_sockets_take);
    std::vector<std::uint8_t> near_data(rank == far ? 0 : much);
    const auto round = [&] {
      std::array<std::int64_t, 1> far_done{};
      comm.barrier();
      if (rank == busy) {
        auto group = comm.group();
        group.receive(std::span(near_data), near);
        group.send(std::span<const std::uint8_t>(far_data), far);
        group.run();
        comm.receive(far_done, far);
      } else if (rank == near) {
        comm.send(std::span<const std::uint8_t>(near_data), busy);
        near_done = Clock::now();
      } else {
        comm.receive(std::span(far_data), busy);
        far_done[0] = Clock::now().time_since_epoch().count();
        comm.send(far_done, busy);
      }
      comm.barrier();
      std::array<int, 1> far_first{};
      if (rank == busy) far_first[0] = far_done[0] < near_done.time_since_epoch().count() ? 1 : 0;
      comm.broadcast(far_first, busy);
      return far_first[0] != 0;
    };
    // Where processors are busy, the other host may get none for as long as all of it takes.
    require(round() || round() || round(), "the other host waited for this one's");
  };
  if (host == 1) return body(far);
  auto other = std::async(std::launch::async, body, near);
  body(busy);
  other.get();
}

TEST(Hosts, WhatGoesToTheOtherOneDoesNotWaitForALongMessageOfThisOne) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(long_beside_short), "");
}

TEST(Hosts, ACommunicatorFindsItsWay) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(collectives), "");
}

}  // namespace

}  // namespace tutti::transport::testing
