// Options of a program and of variables.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "communicator/ranks.hpp"
#include "variable.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

struct FromVariable {
  const char* name;
  const char* value;
  bool (*is_read)(const Options&);
  std::vector<const char*> refused{};
};

std::vector<FromVariable> variables() {
  return {
      {"TUTTI_TIMEOUT", "2.5", [](const Options& o) { return o.timeout == 2500ms; }, {"0", "1e7", "3s"}},
      {"TUTTI_INTERFACE", "eth7", [](const Options& o) { return o.interface == "eth7"; }},
      {"TUTTI_TRANSPORT", "verbs", [](const Options& o) { return o.transport == "verbs"; }},
      {"TUTTI_ALGORITHM", "ring", [](const Options& o) { return o.algorithm == "ring"; }},
      {"TUTTI_NODE_SIZE", "8", [](const Options& o) { return o.node_size == 8; }, {"-1", "1048577", "8.5"}},
      {"TUTTI_RANK_ORDER", "1", [](const Options& o) { return o.rank_order; }, {"2", "true"}},
      {"TUTTI_TCP_STREAMS", "16", [](const Options& o) { return o.tcp_streams == 16; }, {"0", "17", "2 "}},
      {"TUTTI_TCP_CONGESTION", "cubic", [](const Options& o) { return o.tcp_congestion == "cubic"; }},
      {"TUTTI_TUNING", "a/file", [](const Options& o) { return o.tuning == "a/file"; }},
      {"TUTTI_STREAM_FROM",
       "4294967296",
       [](const Options& o) { return o.stream_from == std::size_t{1} << 32; },
       {"-1", "4M", "18446744073709551616"}},
      {"TUTTI_HUGE_PAGES", "0", [](const Options& o) { return !o.huge_pages; }, {"-1", "no"}},
  };
}

TEST(OptionsFromEnvironment, EachVariableIsItsFieldInItsUnit) {
  for (const auto& variable : variables()) {
    const Variable unset(variable.name, "");
    EXPECT_FALSE(variable.is_read(Options::from_environment())) << variable.name;
    const Variable set(variable.name, variable.value);
    EXPECT_TRUE(variable.is_read(Options::from_environment())) << variable.name;
  }
}

TEST(OptionsFromEnvironment, WhatIsNoNumberWithinTheLimitsIsRefusedByNameAndValue) {
  for (const auto& variable : variables())
    for (const char* value : variable.refused) {
      const Variable set(variable.name, value);
      const auto thrown = thrown_by([] { static_cast<void>(Options::from_environment()); });
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << variable.name;
      EXPECT_THAT(thrown.text, HasSubstr(std::string(variable.name) + "=" + value));
    }
  const Variable set("TUTTI_TIMEOUT", "0");
  EXPECT_THAT(thrown_by([] { static_cast<void>(Options::from_environment()); }).text,
              HasSubstr("TUTTI_TIMEOUT=0 is not a number from 0.001 to 1000000"));
}

TEST(OptionsOfAProgram, AreWithinWhatTheirVariablesTake) {
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

TEST(OptionsOfAProgram, ThatDoNotExistAreRefusedWithTheNamesOfTheirVariables) {
  Options transport, algorithm, interface;
  transport.transport = algorithm.algorithm = interface.interface = "pigeon";
  for (const auto& [options, variable] : {std::pair(transport, "TUTTI_TRANSPORT"),
                                          {algorithm, "TUTTI_ALGORITHM"},
                                          {interface, "TUTTI_INTERFACE"}}) {
    const auto refused =
        thrown_by([&, &given = options] { const Communicator alone(UniqueId{}, 0, 1, given); });
    EXPECT_EQ(refused.code, ErrorCode::invalid_argument) << variable;
    EXPECT_THAT(refused.text, testing::AllOf(HasSubstr("\"pigeon\""), HasSubstr(variable)));
  }
}

// Each rank finds it out; some hear it from another one before.
TEST(OptionsOfAProgram, ThatTheFirstCallRefusesAreToldToAllRanks) {
  Options options;
  options.algorithm = "ring";
  options.rank_order = true;
  constexpr Rank ranks = 8;
  for (int round = 0; round < 6; ++round) {
    const UniqueId id = UniqueId::create();
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto thrown = thrown_by([&] { const Communicator comm(id, rank, ranks, options); });
        EXPECT_THAT(thrown.code, testing::AnyOf(ErrorCode::invalid_argument, ErrorCode::aborted));
        EXPECT_THAT(thrown.text, HasSubstr("algorithm ring does not reduce in rank order"));
      });
  }
}

}  // namespace
}  // namespace tutti::test
