// Whom ranks that sleep hear, where they have peers on other hosts.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
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
TEST(Asleep, ARankIsWokenByThoseOfItsHostWhoeverElseThereIs) {
  if (Child([] { return to_another_host() ? 0 : 77; }).wait() != 0)
    GTEST_SKIP() << "no process namespaces here";
  const UniqueId id = UniqueId::create("lo");
  Child other([&] {
    if (!to_another_host()) return 77;
    return Child([&] { return meet(*join(id, 2)), 0; }).wait();
  });
  std::jthread sleeper([&] {
    const auto impl = join(id, 0);
    std::array<std::byte, 1> message{};
    impl->run({.operation = Operation::receive, .root = 1, .out = message.data(), .count = 1});
    meet(*impl);
  });
  const auto impl = join(id, 1);
  EXPECT_NE(impl->tcp, nullptr);
  const auto& sleeping = impl->shm->control(0).sleeping;
  bool sleeps = false;
  for (const Deadline deadline(20s); !sleeps && !deadline.passed();) sleeps = sleeping.load() != 0;
  EXPECT_TRUE(sleeps) << "rank 0 waits for this one, and sleeps where this one wakes nobody";
  const std::array<std::byte, 1> message{};
  impl->run({.operation = Operation::send, .root = 0, .in = message.data(), .count = 1});
  meet(*impl);
  EXPECT_EQ(other.wait(), 0);
}

}  // namespace
}  // namespace tutti::test
