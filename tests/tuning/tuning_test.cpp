// What follows from measured constants, and how they are written down.
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tutti/tutti.hpp>

#include "base/json_depth.hpp"
#include "thrown.hpp"
#include "tuning/clear_costs.hpp"
#include "tuning/decide.hpp"
#include "tuning/file.hpp"
#include "tuning/pieces.hpp"
#include "tuning/predict.hpp"

namespace tutti::tuning {
namespace {

using simulation::HostCosts;
using testing::HasSubstr;

TEST(Pieces, AreLongestBetweenTwoRanksOverTcp) {
  constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
  for (const Collective one : {Collective::broadcast, Collective::all_gather, Collective::all_to_all}) {
    EXPECT_EQ(piece(one, 1 * MiB, 2, "tcp"), 512 * KiB);
    EXPECT_EQ(piece(one, 1 * MiB, 4, "tcp"), 256 * KiB);
    EXPECT_EQ(piece(one, 1 * MiB, 2, "verbs"), 1 * MiB) << "adapters copy nothing into sockets";
  }
  EXPECT_EQ(piece(Collective::all_reduce, 1 * MiB, 2, "tcp"), 256 * KiB) << "two of each chunk";
  EXPECT_EQ(piece(Collective::all_reduce, 16 * MiB, 2, "tcp"), 512 * KiB);
}

TEST(Pieces, OfACommunicatorAreThoseOfItsTransport) {
  const UniqueId id = UniqueId::create("lo");
  std::array<std::uint64_t, 2> sent{};
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Options options;
      options.transport = "tcp";
      options.interface = "lo";
      Communicator comm(id, r, 2, options);
      const std::vector<float> in(1 << 19);
      std::vector<float> out(1 << 20);
      const auto before = comm.stats().messages_sent;
      comm.all_gather(std::span(in), std::span(out));
      sent.at(static_cast<std::size_t>(r)) = comm.stats().messages_sent - before;
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_THAT(sent, testing::Each(4)) << "2 MiB in pieces of 512 KiB";
}

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

const Algorithm& chosen(const Tuning& tuning, const Question& question) {
  return *tuning.choices(question.scene)->of(question.collective, question.bytes);
}
const Question small_sum{{.transport = "shm", .ranks = 4}, Collective::all_reduce, 1 << 10};

TEST(Tuning, FactorsChangeTheChoice) {
  EXPECT_EQ(chosen(of(slow_messages), small_sum).name, "all_pairs");
  const Tuning corrected(7, {{"shm", 4, {{1 << 10, slow_messages, {{"all_reduce all_pairs", 100.0}}}}}});
  EXPECT_NE(chosen(corrected, small_sum).name, "all_pairs");
}

TEST(SizeClass, EndsAtPowersOfTwo) {
  EXPECT_EQ(largest_of(size_class(0)), 1U);
  for (const std::size_t bytes : {1UL, 2UL, 3UL, 1023UL, 1024UL, 1025UL, 1UL << 40U}) {
    EXPECT_GE(largest_of(size_class(bytes)), bytes);
    EXPECT_LT(largest_of(size_class(bytes)), 2 * bytes);
  }
}

TEST(Tuning, ChoosesFewRoundsWhereMessagesAreSlowAndFewBytesWhereTheseAre) {
  EXPECT_EQ(chosen(of(slow_messages), small_sum).name, "all_pairs");
  const Tuning tuning = of(slow_bytes);
  const Algorithm& few_bytes = chosen(tuning, small_sum);
  EXPECT_NE(few_bytes.name, "all_pairs");
  // The best of all by the simulator, and no worse than anything it could have chosen.
  const Costs costs{.inside = {.costs = slow_bytes}, .between = {}};
  const double seconds = predict(small_sum, few_bytes, costs).seconds;
  for (const Ranked& other : rank_algorithms(small_sum, costs))
    EXPECT_LE(seconds, 1.001 * other.seconds) << other.algorithm->name;
}

TEST(Tuning, AsksTheCurveOfTheNearestRanksOrTheDefaults) {
  const Tuning tuning(
      1, {{"shm", 2, {{8, slow_bytes}}}, {"shm", 8, {{8, slow_messages}}}, {"tcp", 4, {{8, slow_bytes}}}});
  EXPECT_EQ(tuning.measured("shm", 3)->ranks, 2);
  EXPECT_EQ(tuning.measured("shm", 5)->ranks, 8);
  EXPECT_EQ(tuning.measured("tcp", 64)->ranks, 4);
  EXPECT_EQ(tuning.measured("verbs", 2), nullptr);
  const Costs mixed = tuning.costs({.transport = "verbs", .ranks = 16, .host_size = 8}, 8);
  EXPECT_EQ(mixed.inside.costs.alpha, slow_messages.alpha);
  EXPECT_EQ(mixed.between.costs.alpha, default_curve("verbs", 2).at(8).costs.alpha);
  EXPECT_THROW((void)tuning.costs({.transport = "pigeon", .ranks = 2}, 8), Error);
}

TEST(Tuning, DecidesOnceAndTakesWhatWasDecidedBefore) {
  Tuning tuning = of(slow_bytes);
  const Scene scene{.transport = "shm", .ranks = 4};
  EXPECT_EQ(tuning.choices(scene), tuning.choices(scene));
  const Algorithm* ring = find_algorithm(Collective::all_reduce, "ring");
  Tuning told = of(slow_bytes);
  Choices choices;
  choices.keep(Collective::all_reduce, size_class(1 << 10), ring);
  told.keep(scene, choices);
  EXPECT_EQ(&chosen(told, small_sum), ring);
}

TEST(Tuning, TakesWhatWasDecidedForNoMoreProcessors) {
  const Algorithm* ring = find_algorithm(Collective::all_reduce, "ring");
  Choices choices;
  choices.keep(Collective::all_reduce, size_class(1 << 10), ring);
  const auto chosen_on = [&](int tuned, int now) {
    Tuning tuning(7, {{.transport = "shm", .ranks = 4, .points = {{1024, slow_messages}}, .cpus = tuned}});
    tuning.keep({.ranks = 4, .cpus = tuned}, choices);
    return &chosen(tuning, {{.ranks = 4, .cpus = now}, Collective::all_reduce, 1 << 10});
  };
  EXPECT_EQ(chosen_on(2, 2), ring);
  EXPECT_EQ(chosen_on(2, 4), ring);
  EXPECT_EQ(chosen_on(8, 4), ring) << "each has its own";
  EXPECT_EQ(chosen_on(8, 0), ring);
  EXPECT_NE(chosen_on(8, 2), ring);
  EXPECT_NE(chosen_on(2, 1), ring);
}

TEST(Choices, AreThoseOfTheNearestClass) {
  const Algorithm* ring = find_algorithm(Collective::all_reduce, "ring");
  const Algorithm* tree = find_algorithm(Collective::all_reduce, "double_tree");
  Choices choices;
  EXPECT_EQ(choices.of(Collective::all_reduce, 8), nullptr);
  choices.keep(Collective::all_reduce, 10, ring);
  choices.keep(Collective::all_reduce, 14, tree);
  for (const std::size_t bytes : {0UL, 1UL << 10U, 1UL << 12U})
    EXPECT_EQ(choices.of(Collective::all_reduce, bytes), ring);
  for (const std::size_t bytes : {1UL << 13U, 1UL << 14U, 1UL << 40U})
    EXPECT_EQ(choices.of(Collective::all_reduce, bytes), tree);
  EXPECT_EQ(choices.of(Collective::reduce, 8), nullptr);
}

TEST(Choices, AreUnderstoodByTheVersionThatWroteThem) {
  const Choices all = *Tuning::defaults()->choices({.ranks = 2});
  const std::string text = to_text(all);
  EXPECT_EQ(choices_from(text), all);
  const auto without_barriers = text.substr(0, text.find("barrier"));
  for (const std::string& other :
       {std::string(), text + "all_reduce 3 juggling\n", text + "juggle 3 ring\n", text + "all_reduce\n",
        text + "all_reduce three ring\n", text + "all_reduce -1 ring\n", text + "all_reduce 64 ring\n",
        without_barriers}) {
    const auto error = test::thrown_by([&] { choices_from(other); });
    EXPECT_EQ(error.code, ErrorCode::mismatch) << error.text << other;
    EXPECT_THAT(error.text, HasSubstr("different versions"));
  }
}

// In every scene every operation has a choice, which is the simulator's first or nearly so where it was not
// decided itself.
TEST(Decide, CoversEveryOperationInEveryScene) {
  for (const Scene& scene : {Scene{.transport = "shm", .ranks = 2}, Scene{.transport = "shm", .ranks = 8},
                             Scene{.transport = "tcp", .ranks = 3},
                             Scene{.transport = "tcp", .ranks = 8, .host_size = 4, .port = 1.25e9},
                             Scene{.transport = "verbs", .ranks = 16, .host_size = 8, .port = 50e9},
                             Scene{.transport = "verbs", .ranks = 1000, .host_size = 6, .port = 50e9}}) {
    const auto choices = Tuning::defaults()->choices(scene);
    for (const Algorithm& algorithm : algorithms())
      for (const std::size_t bytes : {0UL, 4096UL, 1UL << 26U}) {
        const Algorithm* one = choices->of(algorithm.collective, bytes);
        ASSERT_NE(one, nullptr) << name(algorithm.collective);
        EXPECT_FALSE(one->one_sided);
        EXPECT_TRUE(one->by_nodes == nullptr || scene.host_size > 1) << one->name;
      }
    if (scene.ranks > 8) continue;
    for (const auto& [key, algorithm] : choices->all()) {
      if (key.second > 20) continue;
      const Question question{scene, key.first, largest_of(key.second)};
      const auto ranked = rank_algorithms(question, Tuning::defaults()->costs(scene, question.bytes));
      EXPECT_LE(predict(question, *algorithm, Tuning::defaults()->costs(scene, question.bytes)).seconds,
                1.1 * ranked[0].seconds)
          << name(key.first) << " " << question.bytes;
    }
  }
}

// Sockets do not overlap what the simulator does.
TEST(Decide, SendsNoHalvesToASingleRankOverTcp) {
  const auto halves = testing::Contains(
      testing::Truly([](const Ranked& one) { return one.algorithm->name == "scatter_all_gather"; }));
  const auto considered = [](const char* transport, int ranks) {
    return rank_algorithms({{.transport = transport, .ranks = ranks}, Collective::broadcast, 1 << 16}, {});
  };
  EXPECT_THAT(considered("tcp", 2), testing::Not(halves));
  EXPECT_THAT(considered("tcp", 3), halves);
  EXPECT_THAT(considered("verbs", 2), halves);
}

// Hosts of several ranks share a port: what crosses it once is worth more than a flat ring.
TEST(Decide, TakesAlgorithmsForNodesWherePortsAreShared) {
  const Scene scene{.transport = "verbs", .ranks = 16, .host_size = 8, .port = 1e9};
  const auto choices = Tuning::defaults()->choices(scene);
  EXPECT_NE(choices->of(Collective::all_gather, 1 << 20)->by_nodes, nullptr)
      << choices->of(Collective::all_gather, 1 << 20)->name;
}

// What Communicator::predict and tutti-topo explain show.
TEST(Predict, TakesAsLongAmongCandidates) {
  const Tuning measured(
      7, {{"shm", 4, {{8, slow_messages, {{"all_reduce ring", 3.0}, {"broadcast tree", 0.5}}}}}});
  for (const Tuning* tuning : {&measured, Tuning::defaults().get()})
    for (const Scene& scene :
         {Scene{.ranks = 4}, Scene{.ranks = 8, .cpus = 2}, Scene{.transport = "tcp", .ranks = 3},
          Scene{.transport = "tcp", .ranks = 8, .host_size = 4, .cpus = 2, .port = 1.25e9}})
      for (const Collective collective :
           {Collective::all_reduce, Collective::broadcast, Collective::all_gather})
        for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20U, std::size_t{8} << 20U}) {
          const Question question{scene, collective, bytes};
          const Costs costs = tuning->costs(scene, bytes);
          for (const Ranked& one : rank_algorithms(question, costs)) {
            auto asked = candidates_for(question, costs);
            asked.algorithm = one.algorithm->name;
            asked.piece = piece(collective, bytes, scene.ranks, scene.transport);
            EXPECT_NEAR(
                simulation::rank_candidates(network_of(scene, costs), asked).candidates.at(0).result.seconds /
                    predict(question, *one.algorithm, costs, 1).seconds,
                1, 1e-9)
                << scene.transport << " " << one.algorithm->name << " " << bytes;
          }
        }
}

// Where ranks take turns, every round waits for all of them, and the sum of the work counts.
TEST(Decide, TakesFewerRoundsWhereRanksShareProcessors) {
  const Scene own{.ranks = 16}, shared{.ranks = 16, .cpus = 2};
  const auto apart = Tuning::defaults()->choices(own), crowded = Tuning::defaults()->choices(shared);
  EXPECT_EQ(apart->of(Collective::reduce_scatter, 256)->name, "halving");
  EXPECT_EQ(crowded->of(Collective::reduce_scatter, 256)->name, "all_pairs");
  EXPECT_EQ(crowded->of(Collective::reduce, 256)->name, "all_pairs");
  for (const std::size_t bytes : {512UL, 4096UL, 32768UL})
    EXPECT_EQ(crowded->of(Collective::broadcast, bytes)->name, "all_pairs") << bytes;
  EXPECT_EQ(Tuning::defaults()->costs({.ranks = 2, .cpus = 2}, 64).crowd, 1);
  EXPECT_EQ(Tuning::defaults()->costs({.transport = "tcp", .ranks = 8, .host_size = 4, .cpus = 1}, 64).crowd,
            4);
}

// What 16 cores showed: eight ranks that all read all inputs, 32 KiB each, took four times as long.
TEST(Decide, ReadsAPartOfEveryInputWhereManyRanksHaveProcessorsOfTheirOwn) {
  const auto choices = Tuning::defaults()->choices({.ranks = 8, .cpus = 16});
  EXPECT_EQ(choices->of(Collective::all_reduce, 64)->name, "all_pairs");
  for (const std::size_t bytes : {2048UL, 32768UL})
    EXPECT_EQ(choices->of(Collective::all_reduce, bytes)->name, "two_shot") << bytes;
}

// Constants are those of as many as work at once.
TEST(Tuning, RanksThatShareProcessorsCostWhatFewerCost) {
  const auto copy = [](const Scene& scene) { return Tuning::defaults()->costs(scene, 64).inside.costs.copy; };
  EXPECT_NE(copy({.ranks = 8}), copy({.ranks = 2}));
  EXPECT_EQ(copy({.ranks = 8, .cpus = 2}), copy({.ranks = 2}));
  EXPECT_EQ(copy({.ranks = 8, .cpus = 8}), copy({.ranks = 8}));
}

// Points know of as many ranks on a processor as there were; more of them take turns.
TEST(Tuning, CountsRanksOnAProcessorForEachThatWasMeasuredOnOne) {
  const Tuning tuning(7, {{.transport = "shm", .ranks = 2, .points = {{8, slow_messages}}, .cpus = 2},
                          {.transport = "shm", .ranks = 8, .points = {{8, slow_messages}}, .cpus = 2}});
  const auto crowd = [&](const Scene& scene) { return tuning.costs(scene, 8).crowd; };
  EXPECT_EQ(crowd({.ranks = 2, .cpus = 2}), 1);
  EXPECT_EQ(crowd({.ranks = 2, .cpus = 1}), 2);
  EXPECT_EQ(crowd({.ranks = 8, .cpus = 2}), 1);
  EXPECT_EQ(crowd({.ranks = 32, .cpus = 2}), 4);
  EXPECT_EQ(crowd({.ranks = 8, .cpus = 8}), 1);
  EXPECT_EQ(crowd({.transport = "tcp", .ranks = 64, .host_size = 32, .cpus = 2}), 4);
  EXPECT_EQ(crowd({.transport = "tcp", .ranks = 64, .cpus = 2}), 1) << "one rank a host";
}

// Deciding many ranks is dear, but what is right for small sizes is not taken for large ones.
TEST(Decide, DistinguishesSizesOfManyRanks) {
  for (const char* transport : {"shm", "tcp"}) {
    const auto choices = Tuning::defaults()->choices({.transport = transport, .ranks = 32, .cpus = 2});
    EXPECT_EQ(choices->of(Collective::all_reduce, 1 << 24)->name, "two_shot") << transport;
    EXPECT_NE(choices->of(Collective::all_reduce, 256)->name, "two_shot") << transport;
  }
}

TEST(Json, GivesBackConstantsAndChoices) {
  Tuning tuning(0xfedcba9876543210U,
                {{"shm", 2, {{8, slow_messages}, {1 << 20, slow_bytes}}}, {"tcp", 4, {{64, slow_bytes}}, 2}});
  for (const Scene& scene :
       {Scene{.transport = "shm", .ranks = 2, .cpus = 1}, Scene{.transport = "tcp", .ranks = 4}})
    tuning.keep(scene, decide_all(tuning, scene, 1 << 20));
  const auto again = from_json(to_json(tuning));
  EXPECT_EQ(again->machine(), tuning.machine());
  EXPECT_EQ(to_json(*again), to_json(tuning));
  EXPECT_EQ(again->kept(), tuning.kept());
  EXPECT_EQ(again->curves().at(1).cpus, 2);
  EXPECT_EQ(again->curves().at(0).at(1 << 10).costs.alpha, tuning.curves()[0].at(1 << 10).costs.alpha);
}

void expect_refused(const std::string& text) {
  const auto error = test::thrown_by([&] { from_json(text); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument) << text;
  EXPECT_THAT(error.text, AllOf(HasSubstr("tutti-tune"), HasSubstr("TUTTI_TUNING=off")));
}

TEST(Json, RefusesWhatIsNoTuning) {
  Tuning tuning(7, {{.transport = "shm", .ranks = 4, .points = {{1024, slow_bytes}}, .cpus = 2}});
  tuning.keep(small_sum.scene, decide_all(tuning, small_sum.scene, 64));
  const std::string good = to_json(tuning);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text : {std::string(), std::string("{}"), good.substr(0, good.size() / 2)})
    expect_refused(text);
  constexpr std::pair<const char*, const char*> damages[] = {
      {R"("tutti_tuning": 2)", R"("tutti_tuning": 99)"},
      {R"("tutti_tuning": 2)", R"("tutti_tuning": 2.5)"},
      {R"("machine": 7)", R"("machine": -7)"},
      {R"("algorithm": ")", R"("algorithm": "no_)"},
      {R"("operation": ")", R"("operation": "no_)"},
      {R"("ranks": 4)", R"("ranks": 0)"},
      {R"("ranks": 4)", R"("ranks": 4294967300)"},
      {R"("ranks": 4)", R"("ranks": 4.5)"},
      {R"("ranks": 4)", R"("ranks": true)"},
      {R"("cpus": 2)", R"("cpus": -2)"},
      {R"("bytes": 1024)", R"("bytes": 0)"},
      {R"("bytes": 1024)", R"("bytes": -1)"},
      {R"("bytes": 1024)", R"("bytes": 1e300)"},
      {R"("up_to": 64)", R"("up_to": 0)"},
      {R"("up_to": 64)", R"("up_to": -1)"},
      {R"("up_to": 64)", R"("up_to": 18446744073709551615)"},
      {R"("copy")", R"("cope")"},
      {R"("alpha": )", R"("alpha": -)"},
      {R"("alpha": )", R"("alpha": 1e300, "was": )"},
      {R"("alpha": )", R"("alpha": 1e-300, "was": )"},
      {R"("factors": {})", R"("factors": 3)"},
      {R"("factors": {})", R"("factors": {"all_reduce ring": 1e300})"},
      {R"("curves": )", R"("curves": null, "were": )"},
      {R"("points": )", R"("points": {}, "were": )"},
      {R"("choices": )", R"("choices": {}, "were": )"},
  };
  for (const auto& [from, to] : damages) expect_refused(broken(from, to));
  for (const char* of : {"curves", "choices"}) {  // of two that say the same, one would count for nothing
    auto twice = nlohmann::json::parse(good);
    twice[of].push_back(twice[of][0]);
    expect_refused(twice.dump());
  }
}

// What is passed over may nest, but not so deep that reading it takes a gigabyte.
TEST(Json, IsNotDeep) {
  const auto nested = [](int deep) {
    const auto count = static_cast<std::size_t>(deep - 1);  // what they are in counts, too
    const std::string good = to_json(Tuning(7, {}));
    return "{\"more\": " + std::string(count, '[') + std::string(count, ']') + ", " +
           good.substr(good.find('"'));
  };
  EXPECT_EQ(from_json(nested(most_json_depth))->machine(), 7U);
  expect_refused(nested(most_json_depth + 1));
}

// In a time that grows as the text does.
TEST(Json, ManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"" + std::to_string(i) + "\": 0,\n";
  EXPECT_EQ(from_json(text + to_json(Tuning(7, {})).substr(1))->machine(), 7U);
}

TEST(Json, KnowsTheLargestSize) {
  Tuning tuning = of(slow_bytes);
  Choices choices;
  for (int sizes = 0; sizes <= largest_class; ++sizes)
    choices.keep(Collective::all_reduce, sizes, find_algorithm(Collective::all_reduce, "ring"));
  tuning.keep(small_sum.scene, choices);
  const std::string text = to_json(tuning);
  EXPECT_THAT(text, HasSubstr("\"up_to\": 9223372036854775808"));
  EXPECT_EQ(from_json(text)->kept(), tuning.kept());
}

}  // namespace
}  // namespace tutti::tuning
