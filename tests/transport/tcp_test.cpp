#include "transport/tcp/tcp_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <barrier>
#include <filesystem>
#include <latch>
#include <thread>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "tcp_ranks.hpp"
#include "thrown.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::testing {

using test::thrown_by;

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance,
                         conformance_of({.name = "ipv4", .make = [](int ranks) { return tcp_ranks(ranks); }}),
                         conformance_name);
INSTANTIATE_TEST_SUITE_P(TcpStreams, Conformance,
                         conformance_of({.name = "three",
                                         .make = [](int ranks) { return tcp_ranks(ranks, "127.0.0.1", 3); }}),
                         conformance_name);

namespace {

std::size_t open_sockets() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry, gone).string().starts_with("socket:") ? 1 : 0;
  }
  return count;
}

/// The listener closes probes and crossed connections when it comes to that.
bool sockets_become(std::size_t count) {
  for (const Deadline deadline(std::chrono::seconds(10)); !deadline.passed(); ::poll(nullptr, 0, 1))
    if (open_sockets() == count) return true;
  return false;
}

TEST(Tcp, SpeaksIpv6) {
  Transports ranks;
  try {
    ranks = tcp_ranks(2, "::1");
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 on this host: " << error.what();
  }
  pass(*ranks[0], *ranks[1], 0, 1, 0, 5);
  pass(*ranks[1], *ranks[0], 1, 0, 3, 6);
  EXPECT_EQ(ranks[0]->explain(1), "tcp via lo ::1 -> ::1, 1 stream, reno");
}

TEST(Tcp, ExplainsThePath) {
  const auto ranks = tcp_ranks(2, "127.0.0.1", 2);
  EXPECT_EQ(ranks[0]->explain(1), "tcp via lo 127.0.0.1 -> 127.0.0.1, 2 streams");
  EXPECT_FALSE(ranks[0]->reaches(0));
  EXPECT_EQ(ranks[0]->explain(0), "tcp does not lead from a rank to itself");
}

TEST(Tcp, BothDirectionsShareOneConnection) {
  const auto ranks = tcp_ranks(2);
  const auto before = open_sockets();
  pass(*ranks[0], *ranks[1], 0, 1, 0, 1);
  for (Tag tag = 2; tag < 10; ++tag) {
    pass(*ranks[1], *ranks[0], 1, 0, 0, tag);
    pass(*ranks[0], *ranks[1], 0, 1, 0, tag);
  }
  EXPECT_TRUE(sockets_become(before + 2)) << open_sockets();
}

TEST(Tcp, RanksThatConnectAtTheSameTimeShareOneConnection) {
  for (int round = 0; round < 20; ++round) {
    const auto ranks = tcp_ranks(2, "127.0.0.1", 3);
    const auto before = open_sockets();
    {
      std::barrier start(2);
      const auto connect = [&](Rank self) {
        start.arrive_and_wait();
        ranks[static_cast<std::size_t>(self)]->sender(1 - self, 0);
      };
      const std::jthread other(connect, 1);
      connect(0);
    }
    for (Tag tag = 0; tag < 6; ++tag) {
      pass(*ranks[0], *ranks[1], 0, 1, 0, tag);
      pass(*ranks[1], *ranks[0], 1, 0, 0, tag);
    }
    EXPECT_TRUE(sockets_become(before + std::size_t{2} * 3)) << open_sockets();
  }
}

// A socket that is closed with unread input is reset, which must not catch up with what was sent before.
TEST(Tcp, WhatWasSentArrivesAlthoughTheSenderLeftInputUnread) {
  auto ranks = tcp_ranks(2);
  std::vector<std::byte> bytes(ranks[0]->max_message_bytes());
  fill(bytes, 7);
  pass(*ranks[1], *ranks[0], 1, 0, 0, 1);
  ASSERT_TRUE(ranks[1]->sender(0, 0).try_send(bytes.data(), 1000, 2, false));  // never received
  Tag sent = 0;
  while (ranks[0]->sender(1, 0).try_send(bytes.data(), bytes.size(), sent, false)) ++sent;
  std::jthread leave([&] { ranks[0].reset(); });
  const Deadline deadline(std::chrono::seconds(20));
  for (Tag tag = 0; tag < sent;) {
    ASSERT_FALSE(deadline.passed());
    if (!ranks[1]->receiver(0, 0).try_receive(bytes.data(), bytes.size(), tag)) continue;
    require_filled(bytes, 7, "message " + std::to_string(tag++));
    scribble(bytes);
  }
}

TEST(Tcp, CongestionControlCanBeChosen) {
  const auto fresh = [] { return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); };
  for (const char* name : {"", "system", "reno"}) tcp::check_congestion(name);  // reno is in every kernel
  const auto error = thrown_by([&] { tcp::check_congestion("pigeons"); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.text, ::testing::HasSubstr("\"pigeons\" (TUTTI_TCP_CONGESTION)"));
  tcp::Streams streams(1, "reno");
  auto socket = fresh();
  const int fd = socket.get();
  streams.connect(0, PrivateDescriptor(std::move(socket)));
  EXPECT_EQ(tcp::congestion_of(fd), "reno");
}

// On the loopback the peer is near; "system" leaves what the kernel gives.
TEST(Tcp, CongestionControlGoesByDistance) {
  for (const char* wanted : {"", "system"}) {
    const auto ranks =
        tcp_over(listeners_at("127.0.0.1", 2), local_groups(2), {.streams = 1, .congestion = wanted});
    pass(*ranks[0], *ranks[1], 0, 1, 0, 5);
    const FileDescriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string expected = *wanted == '\0' ? "reno" : tcp::congestion_of(fresh.get());
    EXPECT_THAT(ranks[0]->explain(1), ::testing::EndsWith(", " + expected));
    EXPECT_THAT(ranks[1]->explain(0), ::testing::EndsWith(", " + expected));
  }
}

TEST(Tcp, StreamsOutOfRangeAreRefused) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  for (const int streams : {0, 17})
    EXPECT_THROW(tcp::TcpTransport(local_groups(1)[0], listeners[0], tcp_secret,
                                   {.streams = streams, .congestion = {}}),
                 Error);
}

TEST(Tcp, CommunicatorsShareAListener) {
  const auto listeners = listeners_at("127.0.0.1", 2);
  auto first = tcp_over(listeners, local_groups(2, 1));
  const auto second = tcp_over(listeners, local_groups(2, 2));
  for (Tag tag = 1; tag < 4; ++tag) {
    pass(*first[0], *first[1], 0, 1, 0, tag);
    pass(*second[0], *second[1], 0, 1, 0, 10 * tag);
  }
  first.clear();
  pass(*second[0], *second[1], 0, 1, 0, 99);
}

TEST(Tcp, ConnectingToALostRankFailsAtOnce) {
  auto listeners = listeners_at("127.0.0.1", 2);
  auto ranks = tcp_over(listeners, local_groups(2));
  ranks[1].reset();
  listeners[1].reset();
  const Deadline soon(std::chrono::seconds(10));  // long before the group's timeout
  const auto error = thrown_by([&] { ranks[0]->sender(1, 0); });
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks, std::vector<Rank>{1});
  EXPECT_FALSE(soon.passed());
}

TEST(Tcp, ReceiversMayBeMadeLongBeforeTheirSenders) {
  const auto ranks = tcp_ranks(2);
  std::byte byte{};
  EXPECT_FALSE(ranks[1]->receiver(0, 0).try_receive(&byte, 1, 1));
  EXPECT_FALSE(ranks[0]->receiver(1, 0).try_receive(&byte, 1, 1));
  pass(*ranks[0], *ranks[1], 0, 1, 1, 4);
  EXPECT_FALSE(ranks[1]->receiver(0, 0).try_receive(&byte, 1, 1));
}

/// Returns how long `waiter` slept in one wait for an event that `act` causes after a while.
template <class Act>
Clock::duration slept(Transport& waiter, Act act) {
  std::latch sleeps(1);
  std::jthread other([&] {
    sleeps.wait();
    ::poll(nullptr, 0, 50);
    act();
  });
  const auto begin = Clock::now();
  sleeps.count_down();
  waiter.wait(std::chrono::seconds(20));
  return Clock::now() - begin;
}

TEST(Tcp, WaitEndsWithTheFirstConnection) {
  const auto ranks = tcp_ranks(2);
  std::byte byte{};
  ASSERT_FALSE(ranks[1]->receiver(0, 0).try_receive(&byte, 1, 1));
  EXPECT_LT(slept(*ranks[1], [&] { ranks[0]->sender(1, 0).try_send(&byte, 1, 1, false); }),
            std::chrono::seconds(10));
}

TEST(Tcp, WaitEndsWithAMessageAndNotBefore) {
  const auto ranks = tcp_ranks(2);
  pass(*ranks[0], *ranks[1], 0, 1, 0, 1);
  pass(*ranks[0], *ranks[1], 0, 1, 1, 1);
  std::byte byte{};
  ASSERT_FALSE(ranks[1]->receiver(0, 0).try_receive(&byte, 1, 2));
  ranks[0]->sender(1, 1).try_send(&byte, 1, 9,
                                  false);  // nobody has asked for this one: it must not end the wait
  const auto time = slept(*ranks[1], [&] { ranks[0]->sender(1, 0).try_send(&byte, 1, 2, false); });
  EXPECT_GE(time, std::chrono::milliseconds(45));
  EXPECT_LT(time, std::chrono::seconds(10));
  EXPECT_TRUE(ranks[1]->receiver(0, 0).try_receive(&byte, 1, 2));
}

TEST(Tcp, WaitEndsWhenTheNetworkTakesMore) {
  const auto ranks = tcp_ranks(2);
  std::vector<std::byte> bytes(ranks[0]->max_message_bytes());
  Tag sent = 0;
  while (ranks[0]->sender(1, 0).try_send(bytes.data(), bytes.size(), sent, false)) ++sent;
  const auto drain = [&] {
    std::vector<std::byte> into(bytes.size());
    Tag tag = 0;
    for (const Deadline deadline(std::chrono::seconds(5));
         tag + channel_credits < sent && !deadline.passed();)
      tag += ranks[1]->receiver(0, 0).try_receive(into.data(), into.size(), tag) ? 1 : 0;
  };
  EXPECT_LT(slept(*ranks[0], drain), std::chrono::seconds(10));
  const auto before = sent;
  ranks[0]->progress();
  sent += ranks[0]->sender(1, 0).try_send(bytes.data(), bytes.size(), sent, false) ? 1 : 0;
  EXPECT_EQ(sent, before + 1);
}

TEST(Tcp, RoomThatProgressHasMadeEndsTheNextWait) {
  const auto ranks = tcp_ranks(2);
  Sender& sender = ranks[0]->sender(1, 0);
  std::vector<std::byte> bytes(ranks[0]->max_message_bytes());
  Tag sent = 0;
  while (sender.try_send(bytes.data(), bytes.size(), sent, false)) ++sent;
  ranks[0]->prepare_wait();
  Tag taken = 0;
  for (const Deadline deadline(std::chrono::seconds(20)); !sender.flushed() && !deadline.passed();) {
    taken += ranks[1]->receiver(0, 0).try_receive(bytes.data(), bytes.size(), taken) ? 1 : 0;
    ranks[0]->progress();
  }
  ASSERT_TRUE(sender.flushed());
  std::vector<pollfd> waits;
  EXPECT_FALSE(ranks[0]->add_waits(waits)) << "nothing else would";
  ranks[0]->prepare_wait();
  EXPECT_TRUE(ranks[0]->add_waits(waits));
}

// Longer than the TCP_USER_TIMEOUT with which connections are made.
TEST(Tcp, AReaderMayBeBusyForLong) {
  const auto ranks = tcp_ranks(2);
  std::vector<std::byte> bytes(ranks[0]->max_message_bytes());
  Tag sent = 0;
  while (ranks[0]->sender(1, 0).try_send(bytes.data(), bytes.size(), sent, false)) ++sent;
  ::poll(nullptr, 0, 13'000);
  const Deadline deadline(std::chrono::seconds(20));
  for (Tag tag = 0; tag < sent && !deadline.passed();) {
    ranks[0]->progress();
    tag += ranks[1]->receiver(0, 0).try_receive(bytes.data(), bytes.size(), tag) ? 1 : 0;
  }
  EXPECT_FALSE(deadline.passed());
}

TEST(Tcp, MemoryIsTakenWhenItIsNeeded) {
  const auto ranks = tcp_ranks(2);
  pass(*ranks[0], *ranks[1], 0, 1, 0, 1);
  EXPECT_LT(ranks[0]->traffic().memory_held, 4096U);  // the kernel took all at once
  EXPECT_EQ(ranks[0]->traffic().bytes_copied, 0U);
  EXPECT_EQ(ranks[1]->traffic().memory_held, 0U);  // received in place
  const auto max = ranks[0]->max_message_bytes();
  std::vector<std::byte> bytes(max);
  for (Tag tag = 0; ranks[0]->sender(1, 0).try_send(bytes.data(), max, tag, false);) ++tag;
  EXPECT_GT(ranks[0]->traffic().bytes_copied, 2 * max);
  EXPECT_LE(ranks[0]->traffic().memory_held, channel_credits * max + 4096U);
}

}  // namespace

}  // namespace tutti::transport::testing
