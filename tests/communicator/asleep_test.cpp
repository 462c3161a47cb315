// Whom ranks that sleep hear, where they have peers on other hosts.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include <tutti/unique_id.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/session.hpp"
#include "communicator/impl.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using bootstrap::test::Child;

constexpr int size = 3;

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
  group.timeout = 60s;
  group.all_gather = [watch](std::span<const std::byte> mine) {
    return watch->session().all_gather(mine, 60s);
  };
  return std::make_unique<detail::Impl>(watch, nullptr, std::move(group), Options{},
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
  /// Whether rank 0 sleeps within that time, so that ranks of its host wake it.
  static bool sleeps(const detail::Impl& beside, std::chrono::milliseconds within) {
    const auto& sleeping = beside.shm->control(0).sleeping;
    for (const Deadline deadline(within); !deadline.passed();)
      if (sleeping.load() != 0) return true;
    return false;
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
  EXPECT_TRUE(sleeps(*impl, 20s)) << "rank 0 waits for this one, and sleeps where this one wakes nobody";
  send_to(*impl, 0);
  meet(*impl);
  EXPECT_EQ(other.wait(), 0);
}

// Whichever of them is asked for first.
TEST_F(Asleep, ARankThatWaitsForOtherHostsTooIsWokenByThose) {
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
  std::jthread sleeper([&] {
    const auto impl = join(id, 0);
    std::array<std::byte, 2> messages{};
    const std::array calls{receive_from(1, messages[0]), receive_from(2, messages[1])};
    impl->run(calls);
    impl->wait(*impl->start(calls), std::nullopt);
    meet(*impl);
  });
  const auto impl = join(id, 1);
  for (const char* const how : {"a group", "asynchronous"}) {
    EXPECT_FALSE(sleeps(*impl, 100ms)) << how << ": rank 0 sleeps where rank 2 wakes nobody";
    send_to(*impl, 0);
    send_to(*impl, 2);
  }
  meet(*impl);
  EXPECT_EQ(other.wait(), 0);
}

}  // namespace
}  // namespace tutti::test
