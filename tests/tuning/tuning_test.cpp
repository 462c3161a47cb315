// What follows from measured constants, and the file they are kept in.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tutti/tutti.hpp>

#include "topology/discover.hpp"
#include "tuning/file.hpp"

namespace tutti::tuning {
namespace {

using simulation::HostCosts;
using testing::HasSubstr;

// Messages cost much, bytes nothing.
const HostCosts slow_messages{
    .call = 1e-7, .alpha = 1e-3, .overhead = 1e-9, .step = 1e-9, .copy = 1e-15, .fold = 1e-15};
// The other way round.
const HostCosts slow_bytes{
    .call = 1e-9, .alpha = 1e-9, .overhead = 1e-9, .step = 1e-9, .copy = 1e-6, .fold = 1e-6};

Tuning of(const HostCosts& costs, int ranks = 4) { return {7, {{"shm", ranks, {{1024, costs}}}}}; }

TEST(Curve, GoesStraightBetweenPointsInLogarithms) {
  HostCosts high = slow_messages;
  high.alpha = 4e-3;
  const Curve curve{"shm", 2, {{1 << 10, slow_messages}, {1 << 12, high}}};
  EXPECT_NEAR(curve.at(1 << 11).costs.alpha, 2e-3, 1e-12);
  EXPECT_EQ(curve.at(8).costs.alpha, 1e-3);
  EXPECT_EQ(curve.at(1 << 20).costs.alpha, 4e-3);
}

TEST(Curve, InterpolatesFactorsThatBothSizesHave) {
  const Curve curve{"shm",
                    2,
                    {{1 << 10, slow_messages, {{"all_reduce ring", 1.0}, {"reduce tree", 2.0}}},
                     {1 << 12, slow_messages, {{"all_reduce ring", 4.0}}}}};
  EXPECT_NEAR(curve.at(1 << 11).factor(*find_algorithm(Collective::all_reduce, "ring")), 2.0, 1e-9);
  EXPECT_EQ(curve.at(1 << 11).factor(*find_algorithm(Collective::reduce, "tree")), 1.0);
}

TEST(Tuning, FactorsChangeTheChoice) {
  const Question question{"shm", Collective::all_reduce, 4, 1 << 10};
  EXPECT_EQ(of(slow_messages).choose(question)->name, "all_pairs");
  const Tuning corrected(7, {{"shm", 4, {{1 << 10, slow_messages, {{"all_reduce all_pairs", 100.0}}}}}});
  EXPECT_NE(corrected.choose(question)->name, "all_pairs");
}

TEST(SizeClass, EndsAtPowersOfTwo) {
  EXPECT_EQ(largest_of(size_class(0)), 1U);
  for (const std::size_t bytes : {1UL, 2UL, 3UL, 1023UL, 1024UL, 1025UL, 1UL << 40U}) {
    EXPECT_GE(largest_of(size_class(bytes)), bytes);
    EXPECT_LT(largest_of(size_class(bytes)), 2 * bytes);
  }
}

TEST(Tuning, ChoosesFewRoundsWhereMessagesAreSlowAndFewBytesWhereTheseAre) {
  const Question question{"shm", Collective::all_reduce, 4, 1 << 10};
  EXPECT_EQ(of(slow_messages).choose(question)->name, "all_pairs");
  const Tuning bytes = of(slow_bytes);
  const Algorithm* chosen = bytes.choose(question);
  EXPECT_NE(chosen->name, "all_pairs");
  // The best of all by the simulator, and no worse than anything it could have chosen.
  const double seconds = predict(question, *chosen, {.costs = slow_bytes});
  for (const Algorithm& other : algorithms()) {
    if (other.collective != Collective::all_reduce || other.one_sided || other.by_nodes != nullptr) continue;
    EXPECT_LE(seconds, predict(question, other, {.costs = slow_bytes})) << other.name;
  }
}

TEST(Tuning, AsksTheCurveOfTheNearestRanks) {
  const Tuning tuning(
      1, {{"shm", 2, {{8, slow_bytes}}}, {"shm", 8, {{8, slow_messages}}}, {"tcp", 4, {{8, slow_bytes}}}});
  EXPECT_EQ(tuning.curve("shm", 3)->ranks, 2);
  EXPECT_EQ(tuning.curve("shm", 5)->ranks, 8);
  EXPECT_EQ(tuning.curve("tcp", 64)->ranks, 4);
  EXPECT_EQ(tuning.curve("verbs", 2), nullptr);
  EXPECT_EQ(tuning.choose({"verbs", Collective::all_reduce, 2, 8}), nullptr);
}

TEST(Tuning, OneClassOfSizesHasOneChoice) {
  const Tuning tuning = of(slow_bytes);
  EXPECT_EQ(tuning.choose({"shm", Collective::all_reduce, 4, 513}),
            tuning.choose({"shm", Collective::all_reduce, 4, 1024}));
  EXPECT_EQ(tuning.choices().size(), 1U);
}

TEST(Json, GivesBackConstantsAndChoices) {
  const Tuning tuning(0xfedcba9876543210U, {{"shm", 2, {{8, slow_messages}, {1 << 20, slow_bytes}}},
                                            {"tcp", 4, {{64, slow_bytes}}}});
  tuning.decide(1 << 20);
  const auto again = from_json(to_json(tuning));
  EXPECT_EQ(again->machine(), tuning.machine());
  EXPECT_EQ(to_json(*again), to_json(tuning));
  EXPECT_EQ(again->choices(), tuning.choices());
  EXPECT_EQ(again->curves().at(0).at(1 << 10).costs.alpha, tuning.curves()[0].at(1 << 10).costs.alpha);
}

TEST(Json, RefusesWhatIsNoTuning) {
  const Tuning tuning = of(slow_bytes);
  tuning.decide(64);
  const std::string good = to_json(tuning);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), good.substr(0, good.size() / 2),
        broken("\"tutti_tuning\": 1", "\"tutti_tuning\": 99"), broken("\"alpha\": ", "\"alpha\": -"),
        broken("\"algorithm\": \"", "\"algorithm\": \"no_"), broken("\"ranks\": 4", "\"ranks\": 0"),
        broken("\"bytes\": 1024", "\"bytes\": 0"), broken("\"copy\"", "\"cope\"")}) {
    try {
      from_json(text);
      ADD_FAILURE() << "taken: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("tutti-tune"));
    }
  }
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tutti-tuning-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const Tuning& tuning) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << to_json(tuning);
    return file;
  }
  std::filesystem::path folder_;
};

// What a communicator of four ranks says of a call of 8 KiB.
std::string explained(const Options& options, const std::set<Rank>& with_options = {0, 1, 2, 3}) {
  std::string text;
  const UniqueId id = UniqueId::create("lo");
  std::vector<std::jthread> ranks;
  ranks.reserve(4);
  for (Rank r = 0; r < 4; ++r)
    ranks.emplace_back([&, r] {
      Options other;
      other.tuning = "off";
      Communicator comm(id, r, 4, with_options.contains(r) ? options : other);
      std::vector<float> in(1 << 11, 1), out(1 << 11);
      comm.all_reduce(std::span<const float>(in), std::span(out));
      EXPECT_EQ(out.back(), 4);
      if (r == 0)
        text = comm.explain({.operation = Operation::all_reduce,
                             .type = DataType::float32,
                             .in = in.data(),
                             .out = out.data(),
                             .count = in.size()});
    });
  ranks.clear();
  return text;
}

TEST_F(Files, CommunicatorsChooseByThem) {
  const Tuning tuning = of(slow_bytes);
  Options options;
  options.tuning = write("some.json", tuning);
  EXPECT_THAT(explained(options), HasSubstr("algorithm two_shot: the fastest by simulation"));
  options.tuning = "off";
  EXPECT_THAT(explained(options), HasSubstr("algorithm all_pairs: shared memory"));
}

TEST_F(Files, AllRanksTakeWhatRankZeroHas) {
  Options options;
  options.tuning = write("some.json", of(slow_bytes));
  EXPECT_THAT(explained(options, {0}), HasSubstr("algorithm two_shot: the fastest by simulation"));
}

TEST_F(Files, ThatAreNamedMustBeThere) {
  Options options;
  options.tuning = folder_ / "nowhere.json";
  EXPECT_THROW(Communicator(UniqueId::create("lo"), 0, 1, options), Error);
}

TEST_F(Files, OfThisMachineAreFoundByItsHash) {
  ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  EXPECT_EQ(text_of(""), "");
  const std::uint64_t machine = topology::hash(topology::discover());
  EXPECT_EQ(std::filesystem::path(file_of(machine)).parent_path(), folder_ / "tutti" / "tuning");
  const Tuning tuning = of(slow_bytes);
  std::filesystem::create_directories(folder_ / "tutti" / "tuning");
  std::ofstream(file_of(machine ^ 1U)) << to_json(tuning);
  EXPECT_EQ(text_of(""), "") << "of another machine";
  std::ofstream(file_of(machine)) << to_json(tuning);
  EXPECT_EQ(text_of(""), to_json(tuning));
  EXPECT_EQ(text_of("off"), "");
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace tutti::tuning
