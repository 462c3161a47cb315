// Whom ranks that sleep hear, where they have peers on other hosts.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <tutti/unique_id.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/session.hpp"
#include "communicator/impl.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using bootstrap::test::Child;
using transport::shm::in_poll;
using transport::shm::on_word;

constexpr int size = 3;
/// Sleeps that nothing ends last longer than these tests wait for what ends them.
constexpr auto too_long = 50s;

bool to_another_host() {
  return ::unshare(::geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

std::unique_ptr<detail::Impl> join(const UniqueId& id, Rank rank) {
  const auto watch = std::make_shared<Watch>(bootstrap::Session::join(id, rank, size, 60s));
  transport::Group group;
  group.rank = rank;
  group.size = size;
  group.communicator = 1;
  group.world = {0, 1, 2};
  group.timeout = 120s;
  group.all_gather = [watch](std::span<const std::byte> mine) {
    return watch->session().all_gather(mine, 60s);
  };
  Options options;
  options.timeout = group.timeout;
  return std::make_unique<detail::Impl>(watch, nullptr, std::move(group), options,
                                        tuning::Tuning::defaults());
}

void meet(detail::Impl& impl) { impl.run({.operation = Operation::barrier}); }

// By a process in a namespace of its own, which is another host to ranks.
class Asleep : public testing::Test {
 protected:
  void SetUp() override {
    if (Child([] { return to_another_host() ? 0 : 77; }).wait() != 0)
      GTEST_SKIP() << "no process namespaces here";
  }
  template <class Condition>
  static bool within_limit(Condition holds) {
    for (const Deadline deadline(20s); !deadline.passed(); std::this_thread::yield())
      if (holds()) return true;
    return false;
  }
  /// Whether rank 0 sleeps before long, so that ranks of its host wake it in this way; anew, where it was
  /// asked before. Who leaves its processor says so before it sleeps, and takes that back when it is awake.
  static bool sleeps(const detail::Impl& beside, std::uint32_t how) {
    constexpr std::uint32_t left = 1, left_and_seen = 2;
    auto& rank = beside.shm->control(0);
    const bool asleep = within_limit([&] { return rank.away == left && rank.sleeping == how; });
    if (asleep) rank.away = left_and_seen;
    return asleep;
  }
  static Call receive_from(Rank rank, std::byte& into) {
    return {.operation = Operation::receive, .root = rank, .out = &into, .count = 1};
  }
  static void send_to(detail::Impl& impl, Rank rank) {
    const std::byte message{};
    impl.run({.operation = Operation::send, .root = rank, .in = &message, .count = 1});
  }
};

TEST_F(Asleep, ARankIsWokenByThoseOfItsHostWhoeverElseThereIs) {
  const UniqueId id = UniqueId::create("lo");
  Child other([&] {
    if (!to_another_host()) return 77;
    return Child([&] { return meet(*join(id, 2)), 0; }).wait();
  });
  std::jthread sleeper([&] {
    const auto impl = join(id, 0);
    std::byte message{};
    impl->run(receive_from(1, message));
    meet(*impl);
  });
  const auto impl = join(id, 1);
  EXPECT_NE(impl->tcp, nullptr);
  EXPECT_TRUE(sleeps(*impl, on_word)) << "rank 0 waits for this one, and sleeps where this one wakes nobody";
  send_to(*impl, 0);
  meet(*impl);
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(Asleep, ARankThatWaitsForItsHostAndForOthersIsWokenByBoth) {
  const UniqueId id = UniqueId::create("lo");
  Child other([&] {
    if (!to_another_host()) return 77;
    return Child([&] {
             const auto impl = join(id, 2);
             std::byte message{};
             for (int call = 0; call < 2; ++call) {
               impl->run(receive_from(1, message));
               send_to(*impl, 0);
             }
             return meet(*impl), 0;
           })
        .wait();
  });
  std::atomic<int> calls_done = 0;
  std::jthread sleeper([&] {
    const auto impl = join(id, 0);
    const auto usual = std::exchange(impl->longest_sleep, too_long);
    std::array<std::byte, 3> messages{};
    const std::array calls{receive_from(1, messages[0]), receive_from(2, messages[1]),
                           receive_from(1, messages[2])};
    impl->run(calls);
    ++calls_done;
    impl->wait(*impl->start(calls), std::nullopt);
    ++calls_done;
    impl->longest_sleep = usual;
    meet(*impl);
  });
  const auto impl = join(id, 1);
  for (const int call : {1, 2}) {
    SCOPED_TRACE(call == 1 ? "a group" : "asynchronous");
    EXPECT_TRUE(sleeps(*impl, in_poll)) << "rank 0 sleeps where one of the others wakes nobody";
    send_to(*impl, 0);
    EXPECT_TRUE(sleeps(*impl, in_poll)) << "its host has not woken it";
    send_to(*impl, 2);
    EXPECT_TRUE(sleeps(*impl, on_word)) << "the other host has not woken it";
    send_to(*impl, 0);
    EXPECT_TRUE(within_limit([&] { return calls_done == call; }));
  }
  meet(*impl);
  EXPECT_EQ(other.wait(), 0);
}

}  // namespace
}  // namespace tutti::test
