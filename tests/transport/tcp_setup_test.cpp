// What ranks tell each other before the first connection, and whom they blame when that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/socket.hpp"
#include "tcp_ranks.hpp"
#include "transport/tcp/data_socket.hpp"
#include "transport/tcp/inbox.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;

TEST(TcpSetup, ARankOfAnotherBuildIsNamed) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  for (const std::size_t theirs : {0, 1, 11, 200}) {
    Group group = local_groups(2)[0];
    group.all_gather = [theirs](std::span<const std::byte> mine) {
      return std::vector{std::vector(mine.begin(), mine.end()), std::vector<std::byte>(theirs)};
    };
    const auto thrown = thrown_by([&] { tcp::TcpTransport(group, listeners[0], tcp_secret); });
    EXPECT_EQ(thrown.code, ErrorCode::mismatch) << theirs << " bytes: " << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, ::testing::HasSubstr("rank 1 runs another build of tutti"));
  }
}

// Rank 1 waits for the connection that rank 0 is about to make, and hears that others failed.
TEST(TcpSetup, WhoeverFailedMeanwhileIsBlamed) {
  const auto listeners = listeners_at("127.0.0.1", 2);
  auto groups = local_groups(2);
  groups[1].check_members = [] {
    throw Error(ErrorCode::mismatch, "ranks 2 and 4 called other operations", {2, 4});
  };
  const auto ranks = tcp_over(listeners, groups);
  EXPECT_FALSE(listeners[0]->open_inbox(groups[0].communicator)->open(groups[0].world[1], 0, 0));
  const auto thrown = thrown_by([&] { ranks[1]->sender(0, 0); });
  EXPECT_EQ(thrown.code, ErrorCode::mismatch);
  EXPECT_EQ(thrown.ranks, (std::vector<Rank>{2, 4}));
  EXPECT_EQ(thrown.text, "tutti: mismatch: tcp channel 0 to rank 0: ranks 2 and 4 called other operations");
}

// As before, but rank 0 has changed its mind.
TEST(TcpSetup, WhoeverIsGoneIsNotAwaited) {
  const auto listeners = listeners_at("127.0.0.1", 2);
  auto groups = local_groups(2);
  groups[1].timeout = std::chrono::seconds(60);
  groups[1].gone = [](Rank rank) { return rank == 0; };
  const auto ranks = tcp_over(listeners, groups);
  EXPECT_FALSE(listeners[0]->open_inbox(groups[0].communicator)->open(groups[0].world[1], 0, 0));
  const Deadline deadline(std::chrono::seconds(30));
  const auto thrown = thrown_by([&] { ranks[1]->sender(0, 0); });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
  EXPECT_FALSE(deadline.passed());
}

// Its host may be gone, too, and say nothing to who connects.
TEST(TcpSetup, WhoeverIsGoneIsNotCalled) {
  const auto silent = bootstrap::listen_at({"127.0.0.1", 0});
  const std::uint16_t port = bootstrap::local_endpoint(silent.get()).port;
  const auto listeners = listeners_at("127.0.0.1", 1);
  Group group = local_groups(2)[0];
  group.all_gather = [port](std::span<const std::byte> mine) {
    std::vector said(2, std::vector(mine.begin(), mine.end()));
    std::memcpy(said[1].data() + sizeof(std::size_t), &port, sizeof port);  // behind the size of what is said
    return said;
  };
  group.timeout = std::chrono::seconds(60);
  group.gone = [](Rank rank) { return rank == 1; };
  tcp::TcpTransport rank(group, listeners[0], tcp_secret);
  const Deadline deadline(std::chrono::seconds(30));
  const auto thrown = thrown_by([&] { rank.sender(1, 0); });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  EXPECT_FALSE(deadline.passed());
}

TEST(TcpSetup, ARankWithoutDescriptorsBlamesItself) {
  bootstrap::test::Child child([] {
    const auto ranks = tcp_ranks(2);
    const int next = ::dup(0);
    const rlimit none{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
    if (::close(next) != 0 || ::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
    const auto says_so = [](const test::Thrown& thrown) {
      return thrown.code == ErrorCode::system && thrown.text.find("ulimit -n") != std::string::npos;
    };
    const auto sending = thrown_by([&] { ranks[0]->sender(1, 0); });
    if (!says_so(sending) || sending.ranks != std::vector<Rank>{0}) return 2;
    if (!says_so(thrown_by([] { tcp::check_congestion("reno"); }))) return 3;
    return ranks[0]->explain(1).find("no route") == std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace

}  // namespace tutti::transport::testing
