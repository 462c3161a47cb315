// Communicators from communicators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <system_error>

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
        std::optional<Communicator> child;
        {
          Communicator parent = comm.duplicate();
          auto middle = parent.split(parent.rank() / 2);
          child = middle->duplicate();
        }
        EXPECT_EQ(child->size(), std::min(2, comm.size() - comm.rank() / 2 * 2));
        expect_works(*child);
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
