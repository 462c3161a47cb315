// Bad arguments are refused before anything is sent.
#include <gmock/gmock.h>

#include <limits>
#include <utility>

#include "communicator/check.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Arguments : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Arguments, testing::Values("shm", "tcp"), transport_name);

struct BadCall {
  const char* what;
  const char* text;  ///< of the Error
  std::function<void(Communicator&)> make;
};

std::vector<BadCall> bad_calls() {
  static float memory[64];
  static const std::vector<std::size_t> two{1, 1}, three{1, 1, 1}, apart{0, 2}, both{2, 1}, pairs{2, 2},
      huge{std::numeric_limits<std::size_t>::max() / 2, 1};
  constexpr auto f32 = DataType::float32;
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  float* const m = memory;
  return {
      {"null input", "the input pointer is null", [=](Communicator& c) { c.all_reduce(nullptr, m, 3, f32); }},
      {"null output", "the output pointer is null",
       [=](Communicator& c) { c.all_reduce(m, nullptr, 3, f32); }},
      {"null on the root of a reduce", "the output pointer is null",
       [=](Communicator& c) { c.reduce(m, nullptr, 3, f32, c.rank()); }},
      {"null on the root of a broadcast", "the input pointer is null",
       [=](Communicator& c) { c.broadcast(nullptr, m, 3, f32, c.rank()); }},
      {"null blocks", "the input pointer is null",
       [=](Communicator& c) { c.all_gather_v(nullptr, m, two, {}, f32); }},
      {"overlap", "input and output overlap, but not as in place needs it",
       [=](Communicator& c) { c.all_reduce(m, m + 1, 3, f32); }},
      {"overlap of the wrong block", "input and output overlap, but not as in place needs it",
       [=](Communicator& c) { c.all_gather(m + 3 * (1 - c.rank()), m, 3, f32); }},
      {"overlap of a scatter", "input and output overlap, but not as in place needs it",
       [=](Communicator& c) { c.scatter(m, m + 1, 3, f32, c.rank()); }},
      {"in place that does not exist", "input and output overlap",
       [=](Communicator& c) { c.all_to_all_v(m, two, {}, m, two, {}, f32); }},
      {"type code", "unknown data type code 12",
       [=](Communicator& c) { c.all_reduce(m, m, 3, static_cast<DataType>(12)); }},
      {"reduction code", "unknown reduction code 5",
       [=](Communicator& c) { c.all_reduce(m, m, 3, f32, static_cast<ReduceOp>(5)); }},
      {"operation code", "unknown operation code 14",
       [=](Communicator& c) {
         c.call({.operation = static_cast<Operation>(14), .in = m, .out = m, .count = 3});
       }},
      {"negative root", "rank -1 does not exist; ranks are 0 to 1",
       [=](Communicator& c) { c.broadcast(m, m, 3, f32, -1); }},
      {"root past the end", "rank 2 does not exist; ranks are 0 to 1",
       [=](Communicator& c) { c.gather(m, m + 32, 3, f32, 2); }},
      {"peer past the end", "rank 2 does not exist; ranks are 0 to 1",
       [=](Communicator& c) { c.send(m, 3, f32, 2); }},
      {"overflow", "the size in bytes overflows",
       [=](Communicator& c) { c.all_reduce(m, m, most / 2, f32); }},
      {"overflow by the number of ranks", "the size in bytes overflows",
       [=](Communicator& c) { c.all_gather(m, m, most / 8 + 1, f32); }},
      {"overflow of counts", "the size in bytes overflows",
       [=](Communicator& c) { c.all_gather_v(m, m + 32, huge, {}, f32); }},
      {"overflow of displacements", "the size in bytes overflows",
       [=](Communicator& c) { c.all_gather_v(m, m + 32, two, huge, f32); }},
      {"too many counts", "needs one count a rank, 2, not 3",
       [=](Communicator& c) { c.all_gather_v(m, m + 32, three, {}, f32); }},
      {"too few counts", "needs one count a rank, 2, not 0",
       [=](Communicator& c) { c.reduce_scatter_v(m, m + 32, {}, {}, f32); }},
      {"too many counts of spans", "needs one count a rank, 2, not 3",
       [=](Communicator& c) { c.all_gather_v(std::span<const float>(m, 1), std::span(m + 8, 2), three); }},
      {"too many counts of blocks in spans", "needs one count a rank, 2, not 3",
       [=](Communicator& c) {
         c.all_to_all_v(std::span<const float>(m, 2), three, {}, std::span(m + 8, 2), two, {});
       }},
      {"blocks that overlap", "in the output, the blocks of ranks 0 and 1 overlap",
       [=](Communicator& c) { c.all_gather_v(m, m + 32, both, two, f32); }},
      {"blocks from others that overlap", "in the output, the blocks of ranks 0 and 1 overlap",
       [=](Communicator& c) { c.all_to_all_v(m, both, {}, m + 32, both, two, f32); }},
      {"a block for itself that it does not expect", "this rank sends itself 1 elements and expects 2",
       [=](Communicator& c) { c.all_to_all_v(m, two, {}, m + 32, pairs, {}, f32); }},
      {"counts of what has none", "takes no in_counts",
       [=](Communicator& c) {
         c.call({.operation = Operation::all_reduce,
                 .type = f32,
                 .in = m,
                 .out = m + 32,
                 .count = 3,
                 .in_counts = two});
       }},
      {"counts of what goes to one", "takes no out_counts",
       [=](Communicator& c) {
         c.call({.operation = Operation::send,
                 .type = f32,
                 .root = 1 - c.rank(),
                 .in = m,
                 .count = 3,
                 .out_counts = two});
       }},
      {"counts of the other side", "takes no in_counts",
       [=](Communicator& c) {
         c.call({.operation = Operation::all_gather_v,
                 .type = f32,
                 .in = m,
                 .out = m + 32,
                 .in_counts = two,
                 .out_counts = two});
       }},
      {"counts of the other side of a reduction", "takes no out_counts",
       [=](Communicator& c) {
         c.call({.operation = Operation::reduce_scatter_v,
                 .type = f32,
                 .in = m,
                 .out = m + 32,
                 .in_counts = two,
                 .out_counts = two});
       }},
      {"too many displacements", "needs as many displacements as counts, or none",
       [=](Communicator& c) { c.all_to_all_v(m, two, three, m + 32, two, {}, f32); }},
      {"sizes of spans", "all_reduce: the output has 4 elements, not 3: as many as the input",
       [=](Communicator& c) { c.all_reduce(std::span<const float>(m, 3), std::span(m + 8, 4)); }},
      {"sizes of spans on the root of a reduce", "reduce: the output has 4 elements, not 3",
       [=](Communicator& c) { c.reduce(std::span<const float>(m, 3), std::span(m + 8, 4), c.rank()); }},
      {"sizes of spans on the root of a broadcast", "broadcast: the output has 4 elements, not 3",
       [=](Communicator& c) { c.broadcast(std::span<const float>(m, 3), std::span(m + 8, 4), c.rank()); }},
      {"sizes of spans of an exchange", "all_to_all: the output has 4 elements, not 2",
       [=](Communicator& c) { c.all_to_all(std::span<const float>(m, 2), std::span(m + 8, 4)); }},
      {"an output that does not hold every input",
       "all_gather: the output has 5 elements, not 6: for each rank as many as the input",
       [=](Communicator& c) { c.all_gather(std::span<const float>(m, 3), std::span(m + 8, 5)); }},
      {"a root's output that does not hold every input", "gather: the output has 5 elements, not 6",
       [=](Communicator& c) { c.gather(std::span<const float>(m, 3), std::span(m + 8, 5), c.rank()); }},
      {"an input that does not hold every output",
       "reduce_scatter: the input has 5 elements, not 6: for each rank as many as the output",
       [=](Communicator& c) { c.reduce_scatter(std::span<const float>(m, 5), std::span(m + 8, 3)); }},
      {"a root's input that does not hold every output", "scatter: the input has 5 elements, not 6",
       [=](Communicator& c) { c.scatter(std::span<const float>(m, 5), std::span(m + 8, 3), c.rank()); }},
      {"a block that is not its rank's", "all_gather_v: the input has 2 elements, not 1: this rank's count",
       [=](Communicator& c) { c.all_gather_v(std::span<const float>(m, 2), std::span(m + 8, 2), two); }},
      {"blocks past the end of a span",
       "all_gather_v, output: the block of rank 1, 1 elements at 1, ends past the buffer of 1 elements",
       [=](Communicator& c) { c.all_gather_v(std::span<const float>(m, 1), std::span(m + 8, 1), two); }},
      {"displaced past the end of a span",
       "reduce_scatter_v, input: the block of rank 1, 1 elements at 2, ends past the buffer of 2 elements",
       [=](Communicator& c) {
         c.reduce_scatter_v(std::span<const float>(m, 2), std::span(m + 8, 1), two, apart);
       }},
      {"a result that is not its rank's block",
       "reduce_scatter_v: the output has 2 elements, not 1: this rank's count",
       [=](Communicator& c) { c.reduce_scatter_v(std::span<const float>(m, 2), std::span(m + 8, 2), two); }},
      {"blocks for others past the end",
       "all_to_all_v, input: the block of rank 1, 1 elements at 1, ends past the buffer of 1 elements",
       [=](Communicator& c) {
         c.all_to_all_v(std::span<const float>(m, 1), two, {}, std::span(m + 8, 2), two, {});
       }},
      {"blocks of others past the end", "all_to_all_v, output: the block of rank 0, 1 elements at",
       [=](Communicator& c) {
         c.all_to_all_v(std::span<const float>(m, 2), two, {}, std::span(m + 8, 2), two, huge);
       }},
      {"blocks that do not divide",
       "all_to_all: the buffers do not divide into one block a rank (3 elements, 2 ranks)",
       [=](Communicator& c) { c.all_to_all(std::span<const float>(m, 3), std::span(m + 8, 3)); }},
      {"a group that refuses", "the input pointer is null",
       [=](Communicator& c) { c.group().all_reduce(nullptr, m, 3, f32); }},
      {"an asynchronous call", "the input pointer is null",
       [=](Communicator& c) { c.async().all_reduce(nullptr, m, 3, f32).wait(); }},
      {"no memory to register", "register_memory: there is no memory",
       [=](Communicator& c) { static_cast<void>(c.register_memory(nullptr, 4096)); }},
  };
}

TEST(Repeats, OnlyACallThatIsTheSameInEveryPart) {
  float memory[2] = {};
  const std::size_t counts[] = {1, 1};
  const Call call{.operation = Operation::reduce,
                  .type = DataType::float32,
                  .reduction = ReduceOp::sum,
                  .in = memory,
                  .out = memory + 1,
                  .count = 1};
  EXPECT_TRUE(same_but_counts(call, call));
  const auto differs = [&](const auto& change) {
    Call other = call;
    change(other);
    return !same_but_counts(other, call) && !same_but_counts(call, other);
  };
  EXPECT_TRUE(differs([](Call& c) { c.operation = Operation::all_reduce; }));
  EXPECT_TRUE(differs([](Call& c) { c.type = DataType::int32; }));
  EXPECT_TRUE(differs([](Call& c) { c.reduction = ReduceOp::max; }));
  EXPECT_TRUE(differs([](Call& c) { c.reduction.factor = 2; }));
  EXPECT_TRUE(differs([](Call& c) { c.reduction = scaled_sum(1.0); }));
  EXPECT_TRUE(differs([](Call& c) { c.root = 1; }));
  EXPECT_TRUE(differs([&](Call& c) { c.in = memory + 1; }));
  EXPECT_TRUE(differs([&](Call& c) { c.out = memory; }));
  EXPECT_TRUE(differs([](Call& c) { c.count = 2; }));
  EXPECT_TRUE(differs([](Call& c) { c.within = Within::meeting; }));
  EXPECT_FALSE(differs([&](Call& c) { c.in_counts = counts; }));
}

// As two halves of one array.
TEST(ArgumentsOfACall, MayFollowEachOtherInMemory) {
  float memory[6] = {};
  for (const auto& [in, out] : {std::pair(memory, memory + 3), {memory + 3, memory}}) {
    const Call call{
        .operation = Operation::all_reduce, .type = DataType::float32, .in = in, .out = out, .count = 3};
    EXPECT_EQ(thrown_by([&] { check(call, 0, 2); }).text, "");
  }
}

TEST(ArgumentsOfRunLocal, AreOneRankOrMore) {
  for (const int ranks : {0, -1}) {
    const auto refused = thrown_by([&] { run_local(ranks, [](Communicator&) { FAIL() << "of no rank"; }); });
    EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.text.find("at least one rank, not " + std::to_string(ranks)), std::string::npos)
        << refused.text;
  }
}

TEST_P(Arguments, ThatAreBadAreRefusedAndHarmNothing) {
  run_local(
      2,
      [](Communicator& comm) {
        for (const BadCall& bad : bad_calls()) {
          const auto thrown = thrown_by([&] { bad.make(comm); });
          EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << bad.what << ": " << thrown.text;
          EXPECT_THAT(thrown.text, testing::HasSubstr(bad.text)) << bad.what;
          expect_right(comm, {.count = 100});
        }
      },
      over(GetParam()));
}

}  // namespace
}  // namespace tutti::test
