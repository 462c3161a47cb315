#include <tutti/schedule.hpp>

#include <gtest/gtest.h>

#include <tutti/error.hpp>

#include "thrown.hpp"

namespace tutti {
namespace {

TEST(Collective, NamesParseBack) {
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(parse_collective(name(collective)), collective);
  }
  EXPECT_EQ(name(static_cast<Collective>(200)), "invalid");
}

TEST(Collective, UnknownNameListsTheKnownOnes) {
  const auto error = test::thrown_by([&] { parse_collective("allreduce"); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_NE(error.text.find("all_to_all"), std::string::npos) << error.text;
}

TEST(Schedule, ChunksOfInputAndOutput) {
  Schedule schedule;
  schedule.chunks = 6;
  const auto chunks = [&](Collective collective) {
    schedule.collective = collective;
    return std::pair(input_chunks(schedule), output_chunks(schedule));
  };
  EXPECT_EQ(chunks(Collective::all_reduce), std::pair(6, 6));
  EXPECT_EQ(chunks(Collective::reduce), std::pair(6, 6));
  EXPECT_EQ(chunks(Collective::broadcast), std::pair(6, 6));
  EXPECT_EQ(chunks(Collective::all_to_all), std::pair(6, 6));
  EXPECT_EQ(chunks(Collective::reduce_scatter), std::pair(6, 1));
  EXPECT_EQ(chunks(Collective::scatter), std::pair(6, 1));
  EXPECT_EQ(chunks(Collective::all_gather), std::pair(1, 6));
  EXPECT_EQ(chunks(Collective::gather), std::pair(1, 6));
  EXPECT_EQ(chunks(Collective::barrier), std::pair(0, 0));
}

TEST(Builder, KeepsStepsInOrderAndDropsUnusedLanes) {
  Builder b("mine", Collective::reduce, 2, 3, 3, 5);
  b.root(1).credits(2);
  b.at(0, 2).fold(in(1, 2)).to(1, 3, 2);
  b.at(1, 0).store(out(0)).store(scratch(4)).fold(in(0)).from(0, 1).complete();
  b.at(0, 2).fold(in(0, 1, 1)).to(1);
  const Schedule schedule = std::move(b).build();

  EXPECT_EQ(schedule.name, "mine");
  EXPECT_EQ(schedule.collective, Collective::reduce);
  EXPECT_EQ(std::tuple(schedule.ranks, schedule.chunks, schedule.scratch, schedule.credits, schedule.root),
            std::tuple(2, 3, 5, 2, 1));
  ASSERT_EQ(schedule.lanes.size(), 2U);
  EXPECT_EQ(schedule.lanes[0],
            (std::vector<Lane>{
                {}, {{{in(1, 2)}, {message(1, 3, 2)}, false}, {{in(0, 1, 1)}, {message(1)}, false}}}));
  EXPECT_EQ(schedule.lanes[1],
            (std::vector<Lane>{{{{in(0), message(0, 1)}, {out(0), scratch(4)}, true}}, {}}));
}

TEST(Builder, RefusesRanksAndLanesThatAreNotThere) {
  EXPECT_THROW(Builder("none", Collective::barrier, 0, 0), Error);
  EXPECT_THROW(Builder("none", Collective::barrier, 1, 0, 0), Error);
  EXPECT_THROW(Builder("less", Collective::all_reduce, 1, -1), Error);
  EXPECT_THROW(Builder("less", Collective::all_reduce, 1, 1, 1, -1), Error);
  Builder b("two", Collective::barrier, 2, 0, 2);
  EXPECT_THROW(b.at(2), Error);
  EXPECT_THROW(b.at(-1), Error);
  EXPECT_THROW(b.at(0, 2), Error);
  EXPECT_THROW(b.at(0, -1), Error);
}

}  // namespace
}  // namespace tutti
