// Where blocks of v-forms may lie: anywhere, but in an output not on each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/mappings.hpp"
#include "communicator/check.hpp"
#include "communicator/exercise.hpp"
#include "communicator/pages_apart.hpp"
#include "communicator/plan.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using Numbers = std::vector<std::size_t>;
constexpr int ranks_of_blocks = 5;
constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

Thrown checked(Operation operation, const Numbers& counts, const Numbers& displacements) {
  static float in[200], out[200];
  Call call{.operation = operation, .type = DataType::float32, .in = in, .out = out};
  if (operation != Operation::reduce_scatter_v) {
    call.out_counts = counts;
    call.out_displacements = displacements;
  }
  if (operation != Operation::all_gather_v) call.in_counts = counts;
  if (operation == Operation::reduce_scatter_v) call.in_displacements = displacements;
  return thrown_by([&] { check(call, 0, ranks_of_blocks); });
}

TEST(Blocks, ThatOverlapAreNamed) {
  struct Row {
    const char* what;
    Numbers counts, displacements;
    const char* which;
  };
  const Row rows[] = {
      {"neighbours", {4, 4, 4, 4, 4}, {0, 4, 8, 11, 16}, "ranks 2 and 3 "},
      {"the same place", {4, 1, 4, 4, 4}, {0, 8, 12, 8, 20}, "ranks 1 and 3 "},
      {"out of order", {4, 4, 4, 4, 4}, {40, 30, 20, 10, 17}, "ranks 4 and 2 "},
      {"one within another", {9, 1, 1, 1, 1}, {0, 20, 30, 5, 40}, "ranks 0 and 3 "},
      {"not beside each other in memory", {9, 0, 1, 1, 1}, {10, 12, 0, 18, 40}, "ranks 0 and 3 "},
      {"with an empty one between", {3, 0, 3, 1, 1}, {0, 1, 2, 10, 20}, "ranks 0 and 2 "},
      {"the last two", {1, 1, 1, 2, 1}, {0, 1, 2, 3, 4}, "ranks 3 and 4 "},
  };
  for (const Row& row : rows)
    for (const Operation operation : {Operation::all_gather_v, Operation::all_to_all_v}) {
      const auto thrown = checked(operation, row.counts, row.displacements);
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << row.what;
      EXPECT_THAT(thrown.text, testing::HasSubstr(row.which)) << row.what;
      EXPECT_THAT(thrown.text, testing::HasSubstr(std::string(name(operation)) + "(")) << row.what;
      // Of inputs that is harmless.
      EXPECT_EQ(checked(Operation::reduce_scatter_v, row.counts, row.displacements).text, "") << row.what;
    }
}

// In place the result of a reduce_scatter_v takes the place of a block of the input.
TEST(Blocks, OfTheInputMustNotOverlapTheResult) {
  static float memory[200];
  const auto in_place = [](const Numbers& counts, const Numbers& displacements, Rank rank) {
    Call call{.operation = Operation::reduce_scatter_v, .type = DataType::float32, .in = memory};
    call.out = memory + displacements[static_cast<std::size_t>(rank)];
    call.in_counts = counts;
    call.in_displacements = displacements;
    return thrown_by([&] { check(call, rank, ranks_of_blocks); });
  };
  const Numbers four(ranks_of_blocks, 4);
  EXPECT_EQ(in_place(four, {0, 4, 8, 12, 16}, 2).text, "");
  EXPECT_EQ(in_place(four, {16, 4, 8, 12, 0}, 2).text, "");
  EXPECT_EQ(in_place(four, {0, 0, 8, 12, 16}, 2).text, "") << "others' may overlap each other";
  EXPECT_EQ(in_place({4, 4, 4, 0, 4}, {0, 4, 8, 9, 16}, 2).text, "") << "an empty one is nowhere";
  for (const Numbers& displacements : {Numbers{0, 4, 8, 11, 16}, {0, 4, 9, 12, 16}, {0, 4, 12, 12, 16}}) {
    const auto thrown = in_place(four, displacements, 2);
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
    EXPECT_THAT(thrown.text, testing::HasSubstr("must not overlap that of rank 3"));
  }
  EXPECT_THAT(in_place(four, {0, 4, 7, 12, 16}, 2).text, testing::HasSubstr("that of rank 1"));
}

TEST(Blocks, ThatDoNotOverlapMayLieAnywhere) {
  const std::pair<Numbers, Numbers> rows[] = {
      {{4, 4, 4, 4, 4}, {}},
      {{4, 4, 4, 4, 4}, {0, 4, 8, 12, 16}},
      {{4, 4, 4, 4, 4}, {16, 12, 8, 4, 0}},
      {{1, 2, 3, 4, 5}, {50, 7, 20, 90, 1}},
      {{5, 0, 0, 0, 5}, {0, 2, 2, 200, 5}},  // empty ones are nowhere
      {{0, 0, 0, 0, 0}, {3, 3, 3, 3, 3}},
      {{5, 0, 0, 0, 5}, {0, nowhere, nowhere / 4, nowhere / 8 + 1, 5}},
      {{0, 0, 5, 0, 5}, {nowhere / 8 + 1, nowhere, 0, 0, 5}},
  };
  for (const auto& [counts, displacements] : rows)
    for (const Operation operation :
         {Operation::all_gather_v, Operation::all_to_all_v, Operation::reduce_scatter_v})
      EXPECT_EQ(checked(operation, counts, displacements).text, "");
}

class BlocksOfCalls : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, BlocksOfCalls, testing::Values("shm", "tcp"), transport_name);

// No address is made of where an empty one is said to be.
TEST_P(BlocksOfCalls, AreNowhereIfEmpty) {
  run_local(
      2,
      [](Communicator& comm) {
        const bool first = comm.rank() == 0;
        const std::vector<float> in(10, 3.0F);
        const Numbers counts{10, 0}, at{0, nowhere}, none{0, 0}, all_nowhere{nowhere, nowhere};
        std::vector<float> out(10, -1.0F), part(first ? 10U : 0U, -1.0F), twice(20, -1.0F);
        comm.all_gather_v(std::span(in).first(part.size()), std::span(out), counts, at);
        EXPECT_EQ(out, in);
        comm.reduce_scatter_v(std::span(in), std::span(part), counts, at);
        EXPECT_EQ(part, std::vector<float>(part.size(), 6.0F));
        comm.all_to_all_v(std::span(in), counts, at, std::span(twice), first ? Numbers{10, 10} : none,
                          first ? Numbers{0, 10} : all_nowhere);
        EXPECT_EQ(twice, std::vector<float>(20, first ? 3.0F : -1.0F));
      },
      over(GetParam()));
}

// What lies between blocks is nobody's, by whichever way of a call they come.
TEST_P(BlocksOfCalls, LeaveGapsAlone) {
  constexpr std::size_t stride = 3000, count = 1000;
  run_local(
      3,
      [&](Communicator& comm) {
        const std::vector<float> in(3 * count, static_cast<float>(comm.rank() + 1));
        const Numbers counts(3, count), ascending{7, 7 + stride, 7 + 2 * stride},
            descending(ascending.rbegin(), ascending.rend());
        for (int round = 0; round < 40; ++round) {
          const Numbers& at = round % 2 == 0 ? ascending : descending;
          std::vector<float> out(3 * stride + 7, -1), want = out;
          for (std::size_t r = 0; r < 3; ++r)
            std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(at[r]), count, static_cast<float>(r + 1));
          if (round % 4 < 2)
            comm.all_gather_v(std::span(in).first(count), std::span(out), counts, at);
          else
            comm.all_to_all_v(std::span(in), counts, {}, std::span(out), counts, at);
          ASSERT_EQ(out, want) << "round " << round;
        }
      },
      over(GetParam()));
}

// A call with a factor copies its input.
TEST_P(BlocksOfCalls, ReadNoGaps) {
  run_local(
      2,
      [](Communicator& comm) {
        const PagesApart in(page_bytes());
        const Numbers counts{10, 20}, at{in.second(), 7};
        const auto mine = counts[static_cast<std::size_t>(comm.rank())];
        for (std::size_t r = 0; r < 2; ++r)
          std::fill_n(in.data() + at[r], counts[r], static_cast<float>(comm.rank() + 1));
        for (const auto& [reduction, sum] :
             {std::pair{Reduction(ReduceOp::sum), 3.0F}, {scaled_sum(2), 6.0F}})
          for (const bool waits : {false, true}) {
            std::vector<float> out(mine);
            if (waits)
              comm.async()
                  .reduce_scatter_v(in.data(), out.data(), counts, at, DataType::float32, reduction)
                  .wait();
            else
              comm.reduce_scatter_v(in.data(), out.data(), counts, at, DataType::float32, reduction);
            EXPECT_EQ(out, std::vector<float>(mine, sum));
          }
      },
      over(GetParam()));
}

// The copy is as long as the blocks, not as what lies between them.
TEST_P(BlocksOfCalls, CopyNoGaps) {
  run_local(
      2,
      [](Communicator& comm) {
        const PagesApart in(large_gap);
        const Numbers counts{10, 20}, at{in.second(), 7};
        const auto mine = counts[static_cast<std::size_t>(comm.rank())];
        for (std::size_t r = 0; r < 2; ++r)
          for (std::size_t i = 0; i < counts[r]; ++i) in.data()[at[r] + i] = static_cast<float>(100 * r + i);
        std::vector<float> out(mine), want(mine);
        for (std::size_t i = 0; i < mine; ++i)
          want[i] = 4 * static_cast<float>(100 * static_cast<std::size_t>(comm.rank()) + i);
        comm.reduce_scatter_v(in.data(), out.data(), counts, at, DataType::float32, scaled_sum(2));
        EXPECT_EQ(out, want);
      },
      over(GetParam()));
}

TEST(Blocks, ThatFollowEachOtherAreCopiedAsOne) {
  static float in[200], out[200];
  Call call{.operation = Operation::reduce_scatter_v, .type = DataType::float32, .in = in, .out = out};
  const Numbers counts{1, 2, 0, 4, 5}, displacements{50, 51, 7, 90, 1};
  call.in_counts = counts;
  const auto copied = [&] {
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (const auto& part : read_of_input(call, check(call, 0, ranks_of_blocks), 0, ranks_of_blocks))
      parts.emplace_back(part.offset / sizeof(float), part.bytes / sizeof(float));
    return parts;
  };
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(copied(), ElementsAre(Pair(0, 12)));
  call.in_displacements = displacements;
  EXPECT_THAT(copied(), ElementsAre(Pair(50, 3), Pair(90, 4), Pair(1, 5)));
  const Numbers nothing(ranks_of_blocks, 0);
  call.in_counts = nothing;
  EXPECT_THAT(copied(), ElementsAre());
}

// Calls like the one before are not checked again: displacements are part of what must be alike.
TEST_P(BlocksOfCalls, AreCheckedWheneverTheyMove) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<float> in(20, static_cast<float>(comm.rank() + 1));
        std::vector<float> out(40, -1);
        const Numbers counts{10, 10};
        Numbers at{0, 20};
        const auto by = [&](int way) {
          if (way == 0)
            comm.all_gather_v(std::span(in).first(10), std::span(out), counts, at);
          else if (way == 1)
            comm.all_to_all_v(std::span(in), counts, {}, std::span(out), counts, at);
          else
            comm.async().all_gather_v(std::span(in).first(10), std::span(out), counts, at).wait();
        };
        for (const int way : {0, 1, 2})
          for (int round = 0; round < 3; ++round) {
            for (int again = 0; again < 3; ++again) by(way);
            EXPECT_EQ(out[9], 1);
            EXPECT_EQ(out[10], -1);
            EXPECT_EQ(out[20], 2);
            const auto sent = comm.stats().messages_sent;
            at[1] = 9;
            const auto thrown = thrown_by([&] { by(way); });
            EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << "way " << way;
            EXPECT_THAT(thrown.text, testing::HasSubstr("the blocks of ranks 0 and 1 overlap"));
            EXPECT_EQ(comm.stats().messages_sent, sent);
            at[1] = 20;
          }
        expect_right(comm, {.operation = Operation::all_gather_v, .count = 100});
      },
      over(GetParam()));
}

}  // namespace
}  // namespace tutti::test
