// What a live communicator says of a call on the machines its ranks are on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t elements = 1 << 18;

Call sum_of(const std::vector<float>& in, std::vector<float>& out) {
  return {.operation = Operation::all_reduce,
          .type = DataType::float32,
          .in = in.data(),
          .out = out.data(),
          .count = in.size()};
}

void expect_prediction(const std::string& text) {
  EXPECT_THAT(text, HasSubstr("by the topology\nsame node"));
  EXPECT_THAT(text, HasSubstr(": shared memory, "));
  EXPECT_THAT(text, HasSubstr("  not nvlink: "));
  EXPECT_THAT(text, HasSubstr("\nfastest: "));
  EXPECT_THAT(text, HasSubstr(" lanes, chunks of "));
  EXPECT_THAT(text, HasSubstr("\nnot "));
  EXPECT_THAT(text, HasSubstr(" us more\n"));
  EXPECT_THAT(text, HasSubstr("\nthe communicator's choice, "));
}

class Predictions : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Predictions, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_P(Predictions, OfThreadsSayWhyNotOtherwise) {
  run_local(GetParam(), [](Communicator& comm) {
    const std::vector<float> in(elements, 1.0F);
    std::vector<float> out(elements);
    const std::string text = comm.predict(sum_of(in, out));
    EXPECT_THAT(text, HasSubstr(comm.explain(sum_of(in, out))));
    expect_prediction(text);
    EXPECT_EQ(comm.predict(sum_of(in, out)), text);  // the machines are known by now
    comm.all_reduce(std::span<const float>(in), std::span(out));
    EXPECT_EQ(out, std::vector<float>(elements, static_cast<float>(comm.size())));
  });
}

TEST_P(Predictions, OfProcessesAreTheSame) {
  run_processes(GetParam(), over("shm"), [](Communicator& comm) {
    const std::vector<float> in(elements, 1.0F);
    std::vector<float> out(elements);
    expect_prediction(comm.predict(sum_of(in, out)));
  });
}

TEST(Prediction, OfOtherTransportsAndCalls) {
  run_local(
      3,
      [](Communicator& comm) {
        const std::vector<float> in(elements, 1.0F);
        std::vector<float> out(elements);
        EXPECT_THAT(comm.predict(sum_of(in, out)), HasSubstr("tcp is forced"));
        Call send = sum_of(in, out);
        send.operation = Operation::send;
        send.root = (comm.rank() + 1) % 3;
        const std::string text = comm.predict(send);
        EXPECT_THAT(text, HasSubstr("by the topology\n"));
        EXPECT_THAT(text, Not(HasSubstr("fastest")));
      },
      over("tcp"));
  run_local(1, [](Communicator& comm) {
    const std::vector<float> in(elements, 1.0F);
    std::vector<float> out(elements);
    EXPECT_THAT(comm.predict(sum_of(in, out)), HasSubstr("on 1 ranks"));
  });
}

// A name that an algorithm has as well makes it no candidate.
TEST(Prediction, OfAScheduleOfTheUserIsOneOfCandidatesOnly) {
  const Schedule given = parse_schedule(R"(
all_reduce "all_pairs" ranks 2 chunks 1
rank 0
  lane 0
    out[0] = in[0] + from 1 complete
    to 1 = out[0]
rank 1
  lane 0
    to 0 = in[0]
    out[0] = from 0
)");
  Options options;
  options.algorithm = "all_pairs";
  run_local(
      2,
      [&](Communicator& comm) {
        comm.use(given);
        const std::vector<float> in(1);
        std::vector<float> out(1);
        EXPECT_THAT(comm.predict(sum_of(in, out)),
                    AllOf(HasSubstr("algorithm all_pairs: given by the user"), HasSubstr("\nfastest: "),
                          Not(HasSubstr("the communicator's choice"))));
      },
      options);
}

// Of one host, which has no nodes by itself.
TEST(Prediction, OfTheChoiceKnowsItsNodes) {
  const auto choice = [](int node_size) {
    Options options;
    options.algorithm = "hierarchical";
    options.node_size = node_size;
    std::string line;
    run_local(
        4,
        [&](Communicator& comm) {
          const std::vector<float> in(elements, 1.0F);
          std::vector<float> out(elements);
          const std::string text = comm.predict(sum_of(in, out));
          if (comm.rank() == 0) line = text.substr(text.find("the communicator's choice, hierarchical"));
        },
        options);
    return line;
  };
  EXPECT_NE(choice(2), choice(4));
}

// All ranks know of an all_to_all_v is that there is one.
TEST(Prediction, OfBlocksThatDifferIsThatOfAsManyBytesInEqualOnes) {
  run_local(3, [](Communicator& comm) {
    const auto choice = [&](std::size_t count) {
      const std::vector<std::size_t> counts(3, count);
      const std::string text = comm.predict({.operation = Operation::all_to_all_v,
                                             .type = DataType::float32,
                                             .in_counts = counts,
                                             .out_counts = counts});
      EXPECT_THAT(text, HasSubstr("blocks are taken to be equal, " + std::to_string(12 * count) +
                                  " bytes in the larger buffer\n"));
      return text.substr(text.find("the communicator's choice, "));
    };
    EXPECT_NE(choice(1), choice(500'000));
    EXPECT_NE(choice(100'000), choice(500'000));
  });
}

// What it exchanges is no call of the program's, but for the error it is one.
TEST(Prediction, IsNamedWhereAnotherRankDoesNotMakeIt) {
  const auto all = outcomes(2, over("shm"), [](Communicator& comm) {
    if (comm.rank() == 0)
      static_cast<void>(comm.predict({.operation = Operation::barrier}));
    else
      comm.barrier();
  });
  EXPECT_EQ(all[0].code, ErrorCode::mismatch);
  EXPECT_THAT(all[0].text, HasSubstr("predict()"));
}

TEST(Prediction, NeedsACallThatIsRight) {
  run_local(2, [](Communicator& comm) {
    const Call call{.operation = Operation::all_reduce, .type = DataType::float32, .root = 2, .count = 7};
    EXPECT_EQ(thrown_by([&] { (void)comm.predict(call); }).code, ErrorCode::invalid_argument);
  });
}

TEST(Prediction, NeedsNoBuffers) {
  run_local(2, [](Communicator& comm) {
    const std::vector<float> in(elements, 1.0F);
    std::vector<float> out(elements);
    Call call{.operation = Operation::all_reduce, .type = DataType::float32, .count = elements};
    EXPECT_EQ(comm.explain(call), comm.explain(sum_of(in, out)));
    EXPECT_EQ(comm.predict(call), comm.predict(sum_of(in, out)));
    EXPECT_THAT(thrown_by([&] { comm.call(call); }).text, HasSubstr("the input pointer is null"));
    call.count <<= 20U;
    EXPECT_THAT(comm.explain(call), Not(HasSubstr("in place")));
    const std::vector<std::size_t> counts{elements, 0};
    EXPECT_THAT(comm.explain({.operation = Operation::all_gather_v, .out_counts = counts}),
                HasSubstr("all_gather_v(262144, 0 x uint8)"));
  });
}

}  // namespace
}  // namespace tutti::test
