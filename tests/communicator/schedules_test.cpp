// A user's own algorithm.
#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

// All send to rank 0, which folds and sends the result back.
Builder star(int ranks) {
  Builder b("star", Collective::all_reduce, ranks, 1);
  for (Rank r = 1; r < ranks; ++r) b.at(r).fold(in(0)).to(0);
  auto fold = b.at(0).store(out(0)).fold(in(0));
  for (Rank r = 1; r < ranks; ++r) fold.from(r).to(r);
  fold.complete();
  for (Rank r = 1; r < ranks; ++r) b.at(r).store(out(0)).from(0);
  return b;
}

Call all_reduce_call() {
  static float value;
  return {
      .operation = Operation::all_reduce, .type = DataType::float32, .in = &value, .out = &value, .count = 1};
}

class Schedules : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Schedules, testing::Values("shm", "tcp"), transport_name);

TEST_P(Schedules, OfTheUserAreRunUntilTheDefaultIsRestored) {
  run_local(
      3,
      [](Communicator& comm) {
        const std::string usual = comm.explain(all_reduce_call());
        for (const bool as_text : {false, true}) {
          Schedule schedule = star(3).build();
          if (as_text) schedule = parse_schedule(to_text(schedule));
          comm.use(schedule);
          EXPECT_NE(comm.explain(all_reduce_call()).find("algorithm star: given by the user"),
                    std::string::npos);
          {
            const Communicator copy = comm.duplicate();
            EXPECT_EQ(copy.explain(all_reduce_call()).find("algorithm star"), std::string::npos);
            comm.barrier();  // who explains connects: nobody destroys it before
          }
          for (const std::size_t count : {0, 1, 999, 300'000})
            for (const bool in_place : {false, true})
              for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average})
                expect_right(comm, {.count = count, .in_place = in_place, .reduction = op});
          expect_right(comm, {.count = 1000, .factors = {1.0, 2.0, 0.5}});
          expect_right(comm, {.operation = Operation::reduce, .count = 1000});  // another collective
          comm.use_default(Collective::all_reduce);
          EXPECT_EQ(comm.explain(all_reduce_call()), usual);
          expect_right(comm, {.count = 1000});
        }
      },
      over(GetParam()));
}

// A step that sends and copies is proved as one event, and is one: the library's own short ones are not, and
// count what they copy into messages.
TEST(SchedulesInMemory, OfTheUserAreNotTakenApart) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<float> in(100, 1.0F);
        std::vector<float> out(200);
        const auto copied = [&] {
          const auto before = comm.stats().bytes_copied;
          comm.all_gather(std::span<const float>(in), std::span(out));
          return comm.stats().bytes_copied - before;
        };
        const std::size_t block = in.size() * sizeof(float);
        EXPECT_EQ(copied(), 2 * block);
        comm.use(find_algorithm(Collective::all_gather, "all_pairs")->make(2, 0));
        EXPECT_EQ(copied(), block);
      },
      over("shm"));
}

// In shared memory, a rank in place sends each piece before another comes, and needs no copy of its input.
// What others get is the same, in place or not.
TEST_P(Schedules, OfAnExchangeHoldInPlaceInTurn) {
  const bool shared = std::string_view(GetParam()) == "shm";
  run_local(
      4,
      [shared](Communicator& comm) {
        for (const std::size_t count : {1, 1000, 100'000}) {
          std::vector<std::int32_t> data(4 * count), other(4 * count);
          std::int32_t* const in = data.data();
          std::int32_t* const out = comm.rank() == 1 ? other.data() : in;
          const Call call{.operation = Operation::all_to_all,
                          .type = DataType::int32,
                          .in = in,
                          .out = out,
                          .count = count};
          EXPECT_FALSE(shared && comm.explain(call).find("reads a copy") != std::string::npos);
          for (std::int32_t round = 0; round < 3; ++round) {
            for (std::size_t i = 0; i < data.size(); ++i)
              data[i] = static_cast<std::int32_t>(i) + 1'000'000 * comm.rank() + round;
            comm.all_to_all(in, out, count, DataType::int32);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < data.size(); ++i) {
              const auto sent = static_cast<std::int32_t>(i % count + count * comm.rank());
              wrong += out[i] != sent + 1'000'000 * static_cast<std::int32_t>(i / count) + round ? 1U : 0U;
            }
            EXPECT_EQ(wrong, 0U) << count << " elements a block, round " << round;
          }
        }
      },
      over(GetParam()));
}

// Every algorithm of the library can be handed in; those without a proof in place read a copy of the input.
TEST_P(Schedules, OfTheLibraryAsTheUsers) {
  run_local(
      4,
      [](Communicator& comm) {
        for (const Algorithm& algorithm : algorithms()) {
          if (algorithm.one_sided || algorithm.collective == Collective::barrier) continue;
          SCOPED_TRACE(algorithm.name);
          comm.use(algorithm.make(comm.size(), 1));
          for (const bool in_place : {false, true})
            expect_right(comm, {.operation = static_cast<Operation>(algorithm.collective),
                                .count = 3000,
                                .in_place = in_place,
                                .root = 1});
          comm.use_default(algorithm.collective);
        }
      },
      over(GetParam()));
}

TEST_P(Schedules, WithARootServeThatRootOnly) {
  run_local(
      3,
      [](Communicator& comm) {
        comm.use(find_algorithm(Collective::broadcast, "chain")->make(3, 2));
        Call call{.operation = Operation::broadcast, .root = 2, .in = &call, .out = &call, .count = 1};
        EXPECT_NE(comm.explain(call).find("given by the user"), std::string::npos);
        call.root = 1;
        EXPECT_EQ(comm.explain(call).find("given by the user"), std::string::npos);
        for (Rank root = 0; root < 3; ++root)
          expect_right(comm, {.operation = Operation::broadcast, .count = 10'000, .root = root});
      },
      over(GetParam()));
}

struct Refused {
  const char* what;
  Schedule schedule;
};

std::vector<Refused> faulty_schedules() {
  std::vector<Refused> all;
  const auto add = [&](const char* what, Builder b) { all.push_back({what, std::move(b).build()}); };
  const auto change = [&](const char* what, const std::function<void(Schedule&)>& how) {
    Schedule schedule = star(3).build();
    how(schedule);
    all.push_back({what, schedule});
  };
  change("other number of ranks", [](Schedule& s) { s = star(4).build(); });
  change("a contribution is missing", [](Schedule& s) {
    s.lanes[0][0][0].sources.pop_back(), s.lanes[2][0].erase(s.lanes[2][0].begin());
  });
  change("a contribution twice", [](Schedule& s) { s.lanes[0][0][0].sources.push_back(in(0)); });
  change("a result is missing",
         [](Schedule& s) { s.lanes[0][0][0].sinks.pop_back(), s.lanes[2][0].pop_back(); });
  change("a message is never received", [](Schedule& s) { s.lanes[2][0].pop_back(); });
  change("a message is never sent", [](Schedule& s) { s.lanes[2][0].erase(s.lanes[2][0].begin()); });
  change("deadlock", [](Schedule& s) {
    for (Rank r : {1, 2})
      std::swap(s.lanes[static_cast<std::size_t>(r)][0][0], s.lanes[static_cast<std::size_t>(r)][0][1]);
  });
  change("the average is divided nowhere", [](Schedule& s) { s.lanes[0][0][0].complete = false; });
  change("chunk out of range", [](Schedule& s) { s.lanes[0][0][0].sinks[0].first = 1; });
  change("peer out of range", [](Schedule& s) { s.lanes[1][0][0].sinks[0].rank = 3; });
  change("channel out of range", [](Schedule& s) { s.lanes[1][0][0].sinks[0].channel = 99; });
  change("too many credits", [](Schedule& s) { s.credits = 1000; });
  {
    Builder b("race", Collective::broadcast, 2, 1, 2);
    b.at(0).store(out(0)).fold(in(0)).to(1);
    b.at(1, 0).store(out(0)).from(0);
    b.at(1, 1).store(scratch(0)).fold(out(0));
    add("race", std::move(b));
  }
  {
    Builder b("reach", Collective::broadcast, 2, 1);
    b.at(0).store(out(0)).fold(in(0));
    b.at(1).store(out(0)).fold(in(0, 1, 0));
    add("memory of another rank", std::move(b));
  }
  {
    Builder b("half a barrier", Collective::barrier, 3, 0);
    for (Rank r = 0; r < 3; ++r) {
      b.at(r).to((r + 1) % 3, 0, 0);
      b.at(r).from((r + 2) % 3, 0, 0);
    }
    add("a barrier of too few rounds", std::move(b));
  }
  all.push_back({"nothing at all", {}});
  return all;
}

TEST_P(Schedules, WithFaultsAreRefused) {
  run_local(
      3,
      [](Communicator& comm) {
        for (const auto& [what, schedule] : faulty_schedules()) {
          const auto thrown = thrown_by([&, &bad = schedule] { comm.use(bad); });
          EXPECT_EQ(thrown.code, ErrorCode::invalid_schedule) << what;
          expect_right(comm, {.count = 100});
        }
        EXPECT_EQ(thrown_by([&] { comm.use(parse_schedule("this is no schedule")); }).code,
                  ErrorCode::invalid_schedule);
      },
      over(GetParam()));
}

TEST_P(Schedules, InAnotherOrderOfReductionAreRefusedWhereItIsFixed) {
  Options fixed = over(GetParam());
  fixed.rank_order = true;
  run_local(
      3,
      [](Communicator& comm) {
        const auto folding = [](std::initializer_list<Rank> order) {
          Builder b("in some order", Collective::reduce, 3, 1);
          for (const Rank r : {1, 2}) b.at(r).fold(in(0)).to(0);
          auto root = b.at(0).store(out(0));
          for (const Rank r : order) r == 0 ? root.fold(in(0)) : root.from(r);
          root.complete();
          return std::move(b).build();
        };
        comm.use(folding({0, 1, 2}));
        const auto thrown = thrown_by([&] { comm.use(folding({0, 2, 1})); });
        EXPECT_EQ(thrown.code, ErrorCode::invalid_schedule);
        EXPECT_NE(thrown.text.find("TUTTI_RANK_ORDER"), std::string::npos) << thrown.text;
      },
      fixed);
}

TEST(SchedulesOfPeers, AreRefusedOnTwoRanks) {
  run_local(
      2,
      [](Communicator& comm) {
        for (const auto& [what, schedule] : faulty_schedules())
          if (schedule.ranks == 2) {
            EXPECT_EQ(thrown_by([&, &bad = schedule] { comm.use(bad); }).code, ErrorCode::invalid_schedule)
                << what;
          }
        for (const Algorithm& algorithm : algorithms())
          if (algorithm.one_sided) {
            EXPECT_EQ(thrown_by([&] { comm.use(algorithm.make(2, 0)); }).code, ErrorCode::invalid_schedule)
                << algorithm.name;
          }
      },
      over("shm"));
}

TEST_P(Schedules, ThatDifferBetweenRanksAreAMismatch) {
  const auto results = outcomes(3, over(GetParam(), 10s), [](Communicator& comm) {
    if (comm.rank() == 1) comm.use(star(3).build());
    float value = 1;
    comm.all_reduce(std::span(&value, 1));
    comm.barrier();
  });
  for (const auto& result : results)
    EXPECT_TRUE(result.code == ErrorCode::mismatch || result.code == ErrorCode::aborted) << result.text;
}

}  // namespace
}  // namespace tutti::test
