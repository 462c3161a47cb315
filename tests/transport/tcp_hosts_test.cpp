// Two processes on two hosts with addresses of their own.
#include <gtest/gtest.h>

#include <cstdio>

#include "traffic.hpp"
#include "two_hosts.hpp"

namespace tutti::transport::testing {

namespace {

void until(Transport& transport, const std::string& what, const std::function<bool()>& attempt) {
  const Deadline deadline(std::chrono::seconds(30));
  while (!attempt()) {
    transport.progress();
    transport.wait(std::chrono::milliseconds(1));
    require(!deadline.passed(), "waited in vain: " + what);
  }
}

void exchange(tcp::TcpTransport& mine, Rank rank) {
  const Rank peer = 1 - rank;
  const std::string path = rank == 0 ? "10.77.0.1 -> 10.77.0.2" : "10.77.0.2 -> 10.77.0.1";
  require(mine.explain(peer).starts_with("tcp via eth0 " + path + ", 2 streams"), mine.explain(peer));
  std::array<Script, 2> scripts;
  for (std::size_t from = 0; from < 2; ++from)
    scripts.at(from) = {from + 1, random_sizes(from, 200, mine.max_message_bytes())};
  Feeder feeder(mine.sender(peer, 0), scripts.at(static_cast<std::size_t>(rank)));
  Taker taker(mine.receiver(peer, 0), scripts.at(static_cast<std::size_t>(peer)), "other host");
  until(mine, "traffic between hosts", [&] {
    const bool sent = feeder.step();
    return taker.step() && sent;
  });
}

TEST(TcpHosts, ExchangeData) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(exchange, {.streams = 2, .congestion = {}}), "");
}

void deny_route(tcp::TcpTransport& mine, Rank rank) {
  require(mine.reaches(1 - rank), "does not reach the other host");
  if (rank == 0) require(std::system("ip link set eth0 down") == 0, "ip");  // NOLINT(cert-env33-c)
  if (rank == 0) require(!mine.reaches(1), "reaches a host without a route");
  if (rank == 0) require(mine.explain(1).starts_with("tcp: no route to 10.77.0.2: "), mine.explain(1));
}

TEST(TcpHosts, AHostWithoutRouteIsNotReached) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(deny_route), "");
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Prints the time of half a round trip, polling all the time.
void ping_pong(tcp::TcpTransport& mine, Rank rank) {
  const Rank peer = 1 - rank;
  Sender& sender = mine.sender(peer, 0);
  Receiver& receiver = mine.receiver(peer, 0);
  std::array<std::byte, 8> ball{};
  constexpr Tag rounds = 1000;
  auto begin = Clock::now();
  for (Tag round = 0; round < rounds; ++round) {
    if (round == rounds / 4) begin = Clock::now();
    const auto serve = [&] { return sender.try_send(ball.data(), ball.size(), round, false); };
    if (rank == 0) require(serve(), "no room for a ball");
    const Deadline deadline(std::chrono::seconds(20));
    while (!receiver.try_receive(ball.data(), ball.size(), round)) {
      mine.progress();
      require(!deadline.passed(), "the ball is lost");
    }
    if (rank == 1) require(serve(), "no room for a ball");
  }
  if (rank == 0)
    std::printf("tcp, two hosts, 8 B, polling: %.1f us one way\n",
                seconds_since(begin) / (rounds * 3 / 4) / 2 * 1e6);
}

/// Prints the rate of a stream of messages from rank 0 to rank 1, for some sizes.
void stream(tcp::TcpTransport& mine, Rank rank) {
  for (const std::size_t size : {std::size_t{16} << 10, std::size_t{64} << 10, mine.max_message_bytes()}) {
    std::vector<std::byte> bytes(size);
    const auto messages = static_cast<Tag>((std::size_t{64} << 20) / size);
    const auto begin = Clock::now();
    for (Tag tag = 0; tag < messages; ++tag)
      until(mine, "the stream", [&] {
        return rank == 0 ? mine.sender(1, 0).try_send(bytes.data(), size, tag, true)
                         : mine.receiver(0, 0).try_receive(bytes.data(), size, tag);
      });
    if (rank == 0) until(mine, "flushed", [&] { return mine.sender(1, 0).flushed(); });
    if (rank == 1)
      std::printf("tcp, two hosts, messages of %zu KiB: %.2f GB/s\n", size >> 10,
                  static_cast<double>(messages) * static_cast<double>(size) / seconds_since(begin) / 1e9);
  }
}

TEST(TcpHosts, SpeedIsPrinted) {
  TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  EXPECT_EQ(hosts.run(ping_pong), "");
  EXPECT_EQ(hosts.run(stream), "");
}

}  // namespace

}  // namespace tutti::transport::testing
