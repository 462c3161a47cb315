// A communicator that one rank destroys while its session goes on, and global ones at the end of a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Closed : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Closed, testing::Values("shm", "tcp"), transport_name);

// What others meet who need `comm`, which rank 1 has destroyed or is about to.
void expect_lost_one(Communicator& comm, std::string_view why) {
  const auto begun = std::chrono::steady_clock::now();
  const auto thrown = thrown_by([&] {
    for (;;) comm.barrier();
  });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1}) << thrown.text;
  EXPECT_THAT(thrown.text, testing::HasSubstr(why));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s) << "it is heard, not waited for";
}

TEST_P(Closed, AChildIsMissedByWhoNeedsIt) {
  run_local(
      3,
      [](Communicator& comm) {
        auto child = std::optional(comm.duplicate());
        child->barrier();
        if (comm.rank() == 1)
          child.reset();
        else
          expect_lost_one(*child, "rank 1 destroyed its communicator");
        expect_right(comm, {.count = 5000});
      },
      over(GetParam()));
}

TEST_P(Closed, SoIsAParentWhoseChildGoesOn) {
  const auto results = outcomes(3, over(GetParam()), [](Communicator& comm) {
    std::optional parent(std::move(comm));
    Communicator child = parent->duplicate();
    if (child.rank() == 1)
      parent.reset();
    else
      expect_lost_one(*parent, "rank 1 destroyed its communicator");
    expect_right(child, {.count = 5000});
    comm = std::move(child);
  });
  for (const auto& result : results) EXPECT_EQ(result.code, std::nullopt) << result.text;
}

TEST_P(Closed, AnExceptionThatDestroysAChildFailsItForAll) {
  run_local(
      3,
      [](Communicator& comm) {
        try {
          Communicator child = comm.duplicate();
          if (comm.rank() == 1) throw std::runtime_error("boom");
          expect_lost_one(child, "rank 1 destroyed its communicator while an exception passed");
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "boom");
        }
        expect_right(comm, {.count = 5000});
      },
      over(GetParam()));
}

TEST_P(Closed, WhoHasDoneItsPartIsNotMissed) {
  run_local(
      3,
      [](Communicator& comm) {
        auto child = std::optional(comm.duplicate());
        std::vector<std::int32_t> all(3);
        const std::vector<std::int32_t> mine{comm.rank()};
        if (comm.rank() == 2) std::this_thread::sleep_for(400ms);  // longer than what is still granted
        child->gather(std::span<const std::int32_t>(mine), std::span(all), 0);
        if (comm.rank() == 1) child.reset();
        if (comm.rank() == 0) {
          EXPECT_EQ(all, (std::vector<std::int32_t>{0, 1, 2}));
        }
        comm.barrier();
      },
      over(GetParam()));
}

// Nor by the first calls there, which connect where something is to be sent.
TEST_P(Closed, WhoDestroysAChildIsNotMissedByCallsOfNothing) {
  run_local(
      3,
      [](Communicator& comm) {
        auto child = std::optional(comm.duplicate());
        if (comm.rank() == 1) child.reset();
        comm.barrier();
        if (child)
          for (const Operation operation : data_operations())
            if (operation != Operation::all_to_all_v)  // its ranks do not know that all send nothing
              issue(*child, Trial({.operation = operation, .count = 0}, comm.rank(), 3).call());
        comm.barrier();
      },
      over(GetParam()));
}

// Others hear of the death where the rank had not destroyed its communicator before.
TEST_P(Closed, WhoDiesAfterwardsIsNotMissedEither) {
  auto children = fork_ranks(3, over(GetParam(), 20s), [](Communicator& comm) {
    ::alarm(60);  // a rank that hangs ends
    auto part = std::optional(comm.duplicate());
    part->barrier();
    if (comm.rank() == 1) {
      part.reset();
      ::raise(SIGKILL);
    }
    const auto died = thrown_by([&] {
      for (;; std::this_thread::yield()) comm.check();
    });
    EXPECT_EQ(died.code, ErrorCode::peer_lost) << died.text;
    EXPECT_EQ(died.ranks, std::vector<Rank>{1}) << died.text;
    part->check();
    const Rank mine = comm.rank(), other = 2 - mine;
    Rank theirs = -1;
    Group group = part->group();
    group.send(std::span<const Rank>(&mine, 1), other);
    group.receive(std::span(&theirs, 1), other);
    group.run();
    EXPECT_EQ(theirs, other);
  });
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(children[static_cast<std::size_t>(rank)].wait(), rank == 1 ? -SIGKILL : 0) << rank;
}

// The hub of one group was left to the process before the global communicator is destroyed, and its thread's
// own things are, too.
TEST_P(Closed, GlobalCommunicatorsEndWithTheirProcess) {
  const Options options = over(GetParam(), 20s);
  const UniqueId first = bootstrap::reserve_id("lo"), second = bootstrap::reserve_id("lo");
  Child ends([&] {
    static Communicator global(first, 0, 2, options);
    static std::vector<float> data(1000);
    Communicator(second, 0, 2, options).barrier();
    static const Work* const never = new Work(global.async().receive(std::span(data), 1));  // would wait
    static_cast<void>(never);
    std::exit(testing::Test::HasFailure() ? 1 : 0);
    return 0;
  });
  Child stays([&] {
    Communicator of_global(first, 1, 2, options), other(second, 1, 2, options);
    other.barrier();
    const auto thrown = thrown_by([&] { of_global.barrier(); });
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{0}) << thrown.text;
    std::this_thread::sleep_for(1200ms);  // longer than the hub lingers
    std::fflush(nullptr);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(stays.wait(), 0);
  EXPECT_EQ(ends.wait(), 0);
}

}  // namespace
}  // namespace tutti::test
