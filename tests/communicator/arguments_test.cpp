// Bad arguments are refused before anything is sent.
#include <gtest/gtest.h>

#include <limits>

#include "communicator/check.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Arguments : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Arguments, testing::Values("shm", "tcp"), transport_name);

struct BadCall {
  const char* what;
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
      {"null input", [=](Communicator& c) { c.all_reduce(nullptr, m, 3, f32); }},
      {"null output", [=](Communicator& c) { c.all_reduce(m, nullptr, 3, f32); }},
      {"null on the root of a reduce", [=](Communicator& c) { c.reduce(m, nullptr, 3, f32, c.rank()); }},
      {"null on the root of a broadcast",
       [=](Communicator& c) { c.broadcast(nullptr, m, 3, f32, c.rank()); }},
      {"null blocks", [=](Communicator& c) { c.all_gather_v(nullptr, m, two, {}, f32); }},
      {"overlap", [=](Communicator& c) { c.all_reduce(m, m + 1, 3, f32); }},
      {"overlap of the wrong block",
       [=](Communicator& c) { c.all_gather(m + 3 * (1 - c.rank()), m, 3, f32); }},
      {"overlap of a scatter", [=](Communicator& c) { c.scatter(m, m + 1, 3, f32, c.rank()); }},
      {"in place that does not exist", [=](Communicator& c) { c.all_to_all_v(m, two, {}, m, two, {}, f32); }},
      {"type code", [=](Communicator& c) { c.all_reduce(m, m, 3, static_cast<DataType>(12)); }},
      {"reduction code", [=](Communicator& c) { c.all_reduce(m, m, 3, f32, static_cast<ReduceOp>(5)); }},
      {"negative root", [=](Communicator& c) { c.broadcast(m, m, 3, f32, -1); }},
      {"root past the end", [=](Communicator& c) { c.gather(m, m + 32, 3, f32, 2); }},
      {"peer past the end", [=](Communicator& c) { c.send(m, 3, f32, 2); }},
      {"overflow", [=](Communicator& c) { c.all_reduce(m, m, most / 2, f32); }},
      {"overflow by the number of ranks", [=](Communicator& c) { c.all_gather(m, m, most / 8 + 1, f32); }},
      {"overflow of counts", [=](Communicator& c) { c.all_gather_v(m, m + 32, huge, {}, f32); }},
      {"overflow of displacements", [=](Communicator& c) { c.all_gather_v(m, m + 32, two, huge, f32); }},
      {"too many counts", [=](Communicator& c) { c.all_gather_v(m, m + 32, three, {}, f32); }},
      {"too few counts", [=](Communicator& c) { c.reduce_scatter_v(m, m + 32, {}, {}, f32); }},
      {"blocks that overlap", [=](Communicator& c) { c.all_gather_v(m, m + 32, both, two, f32); }},
      {"blocks from others that overlap",
       [=](Communicator& c) { c.all_to_all_v(m, both, {}, m + 32, both, two, f32); }},
      {"a block for itself that it does not expect",
       [=](Communicator& c) { c.all_to_all_v(m, two, {}, m + 32, pairs, {}, f32); }},
      {"too many displacements",
       [=](Communicator& c) { c.all_to_all_v(m, two, three, m + 32, two, {}, f32); }},
      {"sizes of spans",
       [=](Communicator& c) { c.all_reduce(std::span<const float>(m, 3), std::span(m + 8, 4)); }},
      {"a block that is not its rank's",
       [=](Communicator& c) { c.all_gather_v(std::span<const float>(m, 2), std::span(m + 8, 2), two); }},
      {"blocks past the end of a span",
       [=](Communicator& c) { c.all_gather_v(std::span<const float>(m, 1), std::span(m + 8, 1), two); }},
      {"displaced past the end of a span",
       [=](Communicator& c) {
         c.reduce_scatter_v(std::span<const float>(m, 2), std::span(m + 8, 1), two, apart);
       }},
      {"a result that is not its rank's block",
       [=](Communicator& c) { c.reduce_scatter_v(std::span<const float>(m, 2), std::span(m + 8, 2), two); }},
      {"blocks for others past the end",
       [=](Communicator& c) {
         c.all_to_all_v(std::span<const float>(m, 1), two, {}, std::span(m + 8, 2), two, {});
       }},
      {"blocks of others past the end",
       [=](Communicator& c) {
         c.all_to_all_v(std::span<const float>(m, 2), two, {}, std::span(m + 8, 2), two, huge);
       }},
      {"blocks that do not divide",
       [=](Communicator& c) { c.all_to_all(std::span<const float>(m, 3), std::span(m + 8, 3)); }},
      {"a group that refuses", [=](Communicator& c) { c.group().all_reduce(nullptr, m, 3, f32); }},
      {"an asynchronous call", [=](Communicator& c) { c.async().all_reduce(nullptr, m, 3, f32).wait(); }},
      {"no memory to register",
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
  EXPECT_TRUE(differs([](Call& c) { c.root = 1; }));
  EXPECT_TRUE(differs([&](Call& c) { c.in = memory + 1; }));
  EXPECT_TRUE(differs([&](Call& c) { c.out = memory; }));
  EXPECT_TRUE(differs([](Call& c) { c.count = 2; }));
  EXPECT_FALSE(differs([&](Call& c) { c.in_counts = counts; }));
}

TEST(ArgumentsOfOptions, AreWithinWhatTheirVariablesTake) {
  const auto thrown = [](const auto& change) {
    Options options;
    change(options);
    return thrown_by([&] { const Communicator alone(UniqueId{}, 0, 1, options); });
  };
  EXPECT_EQ(thrown([](Options& options) { options.node_size = 2, options.tcp_streams = 16; }).text, "");
  for (const int streams : {0, -1, 17}) {
    const auto refused = thrown([&](Options& options) { options.tcp_streams = streams; });
    EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.text.find("Options::tcp_streams is " + std::to_string(streams)), std::string::npos)
        << refused.text;
  }
  const auto refused = thrown([](Options& options) { options.node_size = -3; });
  EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.text.find("Options::node_size is -3"), std::string::npos) << refused.text;
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
          expect_right(comm, {.count = 100});
        }
      },
      over(GetParam()));
}

}  // namespace
}  // namespace tutti::test
