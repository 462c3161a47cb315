// Communicators from communicators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "refused_calls.hpp"

namespace tutti::test {
namespace {

class Split : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Split,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(1, 2, 5, 8)),
                         transport_and_ranks);

void expect_works(Communicator& comm) {
  for (const Operation operation : data_operations())
    expect_right(comm, {.operation = operation, .count = 600, .seed = 3});
}

// World ranks of a communicator, in its order.
std::vector<Rank> members(Communicator& comm, Rank world) {
  std::vector<Rank> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::span<const Rank>(&world, 1), std::span(all));
  return all;
}

TEST_P(Split, ByColorOrderedByKeyThenRank) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Rank me = comm.rank();
        auto parity = comm.split(me % 2, -me);
        ASSERT_TRUE(parity);
        std::vector<Rank> expected;
        for (Rank r = comm.size() - 1; r >= 0; --r)
          if (r % 2 == me % 2) expected.push_back(r);
        EXPECT_EQ(members(*parity, me), expected);
        EXPECT_EQ(expected[static_cast<std::size_t>(parity->rank())], me);
        expect_works(*parity);

        EXPECT_EQ(comm.local_rank(), me);
        EXPECT_EQ(comm.local_size(), comm.size());
        EXPECT_EQ(comm.host(), 0);
        EXPECT_EQ(comm.hosts(), 1);
        EXPECT_EQ(parity->local_rank(), parity->rank());
        EXPECT_EQ(parity->local_size(), parity->size());

        auto same_key = comm.split(7, 1);
        ASSERT_TRUE(same_key);
        EXPECT_EQ(same_key->rank(), me);
        EXPECT_EQ(same_key->size(), comm.size());

        auto alone = comm.split(me, 0);
        ASSERT_TRUE(alone);
        EXPECT_EQ(alone->size(), 1);
        EXPECT_EQ(alone->local_rank(), 0);
        EXPECT_EQ(alone->local_size(), 1);
        EXPECT_EQ(alone->host(), 0);
        EXPECT_EQ(alone->hosts(), 1);
        expect_works(*alone);
        expect_works(comm);
      },
      over(transport));
}

TEST_P(Split, ANegativeColorGetsNone) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        auto some = comm.split(comm.rank() == 0 ? -1 : 0);
        EXPECT_EQ(some.has_value(), comm.rank() != 0);
        if (some) expect_works(*some);
        EXPECT_FALSE(comm.split(-3));
        expect_works(comm);
      },
      over(transport));
}

TEST_P(Split, ChildrenOutliveTheirParents) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Communicator child;
        EXPECT_FALSE(child);
        {
          Communicator parent = comm.duplicate();
          auto middle = parent.split(parent.rank() / 2);
          child = middle->duplicate();
        }
        EXPECT_TRUE(child);
        EXPECT_EQ(child.size(), std::min(2, comm.size() - comm.rank() / 2 * 2));
        expect_works(child);
        Communicator grown = std::exchange(child, {});
        EXPECT_FALSE(child);
        expect_works(grown);
        expect_works(comm);
      },
      over(transport));
}

TEST_P(Split, NestedDownToOneRank) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        std::vector<Communicator> chain;
        chain.push_back(comm.duplicate());
        while (chain.back().size() > 1) {
          const int half = chain.back().size() / 2;
          auto next = chain.back().split(chain.back().rank() < half ? 0 : 1);
          chain.push_back(std::move(*next));
        }
        for (auto& one : chain) expect_right(one, {.operation = Operation::all_to_all, .count = 99});
      },
      over(transport));
}

// Neighbouring pairs and the whole, all under way at once.
TEST_P(Split, SubgroupsWorkBesideTheParentsOperations) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        auto pair = comm.split(comm.rank() / 2);
        Async whole = comm.async(), part = pair->async();
        for (std::uint32_t round = 1; round < 10; ++round) {
          const Trial a({.count = 20'000, .seed = round}, comm.rank(), comm.size());
          const Trial b({.count = 5'000, .seed = round}, pair->rank(), pair->size());
          Work first = issue(whole, a.call());
          Work second = issue(part, b.call());
          expect_right(*pair, {.operation = Operation::broadcast, .count = 10, .seed = round});
          second.wait();
          first.wait();
          EXPECT_EQ(a.wrong() + b.wrong(), "");
        }
      },
      over(transport));
}

TEST_P(Split, WhileOperationsOfTheParentAreUnderWay) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Trial trial({.operation = Operation::all_gather, .count = 50'000}, comm.rank(), comm.size());
        Async async = comm.async();
        Work work = issue(async, trial.call());
        Communicator child = comm.duplicate();
        expect_works(child);
        work.wait();
        EXPECT_EQ(trial.wrong(), "");
      },
      over(transport));
}

// Each host a process-id namespace of this machine. A test that lacks the right to make these shall skip.
bool may_be_hosts() {
  Child child([] { return ::unshare(CLONE_NEWPID) == 0 ? 0 : 1; });
  return child.wait() == 0;
}
void run_on_hosts(const std::vector<std::vector<Rank>>& hosts, int ranks, const Options& options,
                  const std::function<void(Communicator&)>& body) {
  const UniqueId id = bootstrap::reserve_id("lo");
  const auto run_rank = [&](Rank rank) {
    ::alarm(60);
    const auto thrown = thrown_by([&] {
      Communicator comm(id, rank, ranks, options);
      body(comm);
    });
    EXPECT_FALSE(thrown.code) << "rank " << rank << ": " << thrown.text;
    std::fflush(nullptr);
    return testing::Test::HasFailure() ? 1 : 0;
  };
  // The first process of a namespace is no rank: the kernel ends the others when it ends.
  const auto run_host = [&](const std::vector<Rank>& members) {
    std::vector<Child> children;
    children.reserve(members.size());
    for (const Rank rank : members) children.emplace_back([&, rank] { return run_rank(rank); });
    int failed = 0;
    for (auto& child : children) failed += child.wait() == 0 ? 0 : 1;
    return failed;
  };
  std::vector<Child> children;
  children.reserve(hosts.size());
  for (const auto& members : hosts)
    children.emplace_back([&] {
      if (::unshare(CLONE_NEWPID) != 0) return 99;
      return Child([&] { return run_host(members); }).wait();
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

void expect_counted(Communicator& comm, Rank world, const std::vector<Rank>& ranks, int host, int hosts) {
  EXPECT_EQ(members(comm, world), ranks);
  EXPECT_EQ(comm.host(), host) << "rank " << world;
  EXPECT_EQ(comm.hosts(), hosts) << "rank " << world;
}

TEST(Hosts, AreCountedByTheirLowestRanks) {
  if (!may_be_hosts()) GTEST_SKIP() << "no permission to make process-id namespaces";
  const std::vector<std::vector<Rank>> hosts{{0, 2}, {1, 4}, {3}}, across{{0, 1, 3}, {2, 4}};
  const std::array<int, 5> host_of{0, 1, 0, 2, 1}, counted_down{2, 0, 2, 1, 0};
  for (const char* transport : {"", "tcp"})
    run_on_hosts(hosts, 5, over(transport), [&](Communicator& comm) {
      const Rank me = comm.rank();
      const auto place = static_cast<std::size_t>(me);
      expect_counted(comm, me, {0, 1, 2, 3, 4}, host_of.at(place), 3);
      Communicator copy = comm.duplicate();
      expect_counted(copy, me, {0, 1, 2, 3, 4}, host_of.at(place), 3);
      auto reversed = comm.split(0, -me);
      expect_counted(*reversed, me, {4, 3, 2, 1, 0}, counted_down.at(place), 3);
      auto near = comm.split(comm.host());
      expect_counted(*near, me, hosts.at(static_cast<std::size_t>(comm.host())), 0, 1);
      EXPECT_EQ(near->rank(), comm.local_rank());
      EXPECT_EQ(near->size(), comm.local_size());
      auto far = comm.split(comm.local_rank());
      expect_counted(*far, me, across.at(static_cast<std::size_t>(comm.local_rank())), far->rank(),
                     far->size());
      EXPECT_EQ(far->local_size(), 1);
    });
}

class Generations : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Generations, testing::Values("shm", "tcp"), transport_name);

TEST_P(Generations, AHundredAreMadeOneOfTheOther) {
  run_local(
      2,
      [](Communicator& comm) {
        Communicator current = comm.duplicate();
        for (int i = 0; i < 100; ++i) {
          current = current.duplicate();
          current.barrier();
        }
      },
      over(GetParam()));
}

// The system refuses `call`, with EMFILE, to rank `guilty` while it makes its part of a communicator of all
// ranks with its color: everybody hears of it, also who has made one of others.
void expect_all_hear_of(const char* transport, Rank guilty, std::uint32_t call,
                        const std::function<int(Rank)>& color, const std::string& members) {
  run_processes(3, over(transport, 20s), [&](Communicator& comm) {
    ::alarm(60);
    comm.barrier();
    if (comm.rank() == guilty) refuse_calls(call, EMFILE);
    const auto thrown = thrown_by([&] {
      const auto part = comm.split(color(comm.rank()));
      EXPECT_NE(color(comm.rank()), color(guilty));
      comm.barrier();
    });
    EXPECT_EQ(thrown.code, comm.rank() == guilty ? ErrorCode::system : ErrorCode::aborted) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{guilty}) << thrown.text;
    EXPECT_THAT(thrown.text, testing::HasSubstr("rank " + std::to_string(guilty) +
                                                " failed while making a communicator of ranks " + members));
    EXPECT_THAT(thrown.text, testing::HasSubstr(std::generic_category().message(EMFILE)));
    EXPECT_EQ(thrown_by([&] { comm.barrier(); }).code, ErrorCode::aborted);
  });
}

TEST(SplitFailures, NameWhoCannotMakeItsPartOfACommunicator) {
  const auto all = [](Rank) { return 0; };
  const auto two = [](Rank rank) { return rank == 1 ? 1 : 0; };
  const auto one = [](Rank rank) { return rank == 2 ? 1 : 0; };
  for (const char* transport : {"shm", "tcp"}) {
    expect_all_hear_of(transport, 0, SYS_memfd_create, all, "0, 1, 2");
    expect_all_hear_of(transport, 2, SYS_memfd_create, one, "2,");
    expect_all_hear_of(transport, 0, SYS_memfd_create, two, "0, 2");
  }
  // Of which the others learn later, when they have talked about shared memory.
  expect_all_hear_of("tcp", 1, SYS_eventfd2, all, "0, 1, 2");
  expect_all_hear_of("tcp", 2, SYS_eventfd2, two, "0, 2");
}

}  // namespace
}  // namespace tutti::test
