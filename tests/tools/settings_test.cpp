// tutti-perf's command line, and its statistics.
#include "perf/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "exit_status.hpp"
#include "perf/measure.hpp"
#include "perf/report.hpp"
#include "variable.hpp"

namespace tutti::perf {
namespace {

std::variant<Settings, int> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tutti-perf");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}
Settings settings_of(std::vector<const char*> arguments) {
  return std::get<Settings>(parse(std::move(arguments)));
}

TEST(Settings, SizesGrowByAFactorOrAStep) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(settings_of({"all_reduce", "-b", "8", "-e", "64"}).sizes, (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(settings_of({"all_reduce", "-b", "1K", "-e", "1M", "-f", "32"}).sizes,
            (Sizes{1024, 32768, 1048576}));
  EXPECT_EQ(settings_of({"all_reduce", "-b", "1M", "-e", "3M", "-i", "1M"}).sizes,
            (Sizes{1 << 20, 2 << 20, 3 << 20}));
  EXPECT_EQ(settings_of({"all_reduce", "-b", "0", "-e", "4"}).sizes, (Sizes{0, 1, 2, 4}));
  EXPECT_EQ(settings_of({"all_reduce", "-b", "0K", "-e", "0"}).sizes, (Sizes{0}));
  EXPECT_EQ(settings_of({"all_reduce", "-b", "2G", "-e", "2G"}).sizes, (Sizes{std::size_t{2} << 30}));
  EXPECT_EQ(settings_of({"all_reduce"}).sizes.back(), std::size_t{64} << 20);
  EXPECT_EQ(settings_of({"all_reduce", "-b", "1", "-e", "1000000", "-i", "1"}).sizes.size(), 1000000U);
  EXPECT_EQ(settings_of({"barrier"}).sizes, (Sizes{0}));
}

TEST(Settings, TypesAndReductionsTakeBothSpellings) {
  EXPECT_EQ(settings_of({"all_reduce", "-t", "half"}).types, std::vector{DataType::float16});
  EXPECT_EQ(settings_of({"all_reduce", "-d", "half"}).types, std::vector{DataType::float16});
  EXPECT_EQ(settings_of({"all_reduce", "-t", "all"}).types.size(), std::size_t{data_type_count});
  EXPECT_EQ(settings_of({"barrier", "-t", "all"}).types.size(), 1U) << "all would be the same";
  EXPECT_EQ(settings_of({"all_reduce", "-o", "prod"}).reductions.front().name, "product");
  EXPECT_EQ(settings_of({"all_reduce", "-o", "all"}).reductions.size(), std::size_t{reduce_op_count} + 1);
  EXPECT_EQ(settings_of({"broadcast", "-o", "all"}).reductions.front().name, "none");
}

TEST(Settings, RootsAreOneRankOrAll) {
  EXPECT_EQ(settings_of({"broadcast"}).root, 0);
  EXPECT_EQ(settings_of({"broadcast", "-r", "3"}).root, 3);
  EXPECT_EQ(settings_of({"broadcast", "-r", "-1"}).root, all_roots);
  EXPECT_EQ(settings_of({"broadcast", "-r", "all"}).root, all_roots);
}

TEST(Settings, MessagesNameAllTypesAndReductions) {
  const auto message = [](auto parse, const char* text) {
    try {
      parse(text);
    } catch (const CLI::ValidationError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(parse_reductions, "median"), testing::HasSubstr(" mulsum all"));
  EXPECT_THAT(message(parse_types, "float12"), testing::EndsWith(" all"));
}

TEST(Settings, BadOnesAreUsageErrors) {
  const std::vector<std::vector<const char*>> bad{
      {},
      {"all_to_some"},
      {"all_reduce", "-b", "lots"},
      {"all_reduce", "-b", "-5"},
      {"all_reduce", "-b", "010"},
      {"all_reduce", "-b", "010K"},
      {"all_reduce", "-e", "99999999999999999999"},
      {"all_reduce", "-e", "16E"},
      {"all_reduce", "-b", "8M", "-e", "4M"},
      {"all_reduce", "-f", "1"},
      {"all_reduce", "-f", "nan"},
      {"all_reduce", "-f", "1.0000001", "-b", "1G", "-e", "8G"},
      {"all_reduce", "-i", "1"},
      {"all_reduce", "-i", "0"},
      {"all_reduce", "-f", "inf"},
      {"all_reduce", "-f", "2", "-i", "8"},
      {"all_reduce", "--timeout", "0"},
      {"all_reduce", "--timeout", "1e7"},
      {"all_reduce", "--timeout", "nan"},
      {"all_reduce", "--timeout", "inf"},
      {"all_reduce", "--timeout", "5x"},
      {"all_reduce", "-n", "0"},
      {"all_reduce", "-n", "010"},
      {"all_reduce", "-w", "00"},
      {"all_reduce", "-r", "+01"},
      {"all_reduce", "--ranks", "010"},
      {"all_reduce", "-t", "float12"},
      {"all_reduce", "-o", "median"},
      {"all_reduce", "-r", "-2"},
      {"all_reduce", "-r", "every"},
      {"all_reduce", "--ranks", "0"},
      {"all_reduce", "--algorithm", "rign"},
      {"all_to_all", "--algorithm", "ring"},
      {"sendrecv", "--algorithm", "ring"},
      {"all_reduce", "--threads"},
      {"all_reduce", "--no-pin"},
      {"all_reduce", "--json", ""},
      {"all_reduce", "--transport", "pigeon"},
      {"all_reduce", "--no-such-option"},
  };
  for (const auto& arguments : bad) {
    const auto result = parse(arguments);
    ASSERT_TRUE(std::holds_alternative<int>(result)) << testing::PrintToString(arguments);
    EXPECT_EQ(std::get<int>(result), usage_error);
  }
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
  EXPECT_EQ(settings_of({"all_reduce", "-w", "0"}).warmups, 0);
  EXPECT_EQ(settings_of({"all_reduce", "-n", "100"}).iterations, 100);
  EXPECT_FALSE(settings_of({"all_reduce", "--ranks", "2", "--no-pin"}).pin);
  EXPECT_EQ(settings_of({"all_gather_v", "--algorithm", "ring"}).options.algorithm, "ring");
  EXPECT_GE(settings_of({"all_reduce", "--timeout", "1e3"}).options.timeout, std::chrono::seconds(1000));
}

TEST(Settings, HelpNeedsNoVariables) {
  const test::Variable malformed("TUTTI_TIMEOUT", "soon");
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
  EXPECT_EQ(std::get<int>(parse({"--version"})), 0);
  EXPECT_EQ(std::get<int>(parse({"all_reduce"})), usage_error);
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  const std::vector<double> sorted{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
}

TEST(Summary, AveragesEveryResultAndAddsUpTheWrong) {
  Row both{.bytes = 8, .out_of_place = {.busbw = 1, .wrong = 2}, .in_place = Result{.busbw = 3, .wrong = 5}};
  Row one{.bytes = 8, .out_of_place = {.busbw = 8, .wrong = std::nullopt}};
  const Summary summary = summarise({both, one});
  EXPECT_DOUBLE_EQ(summary.average_busbw, 4);
  EXPECT_EQ(summary.wrong, 7U);
  EXPECT_FALSE(summarise({one}).wrong.has_value());
}

}  // namespace
}  // namespace tutti::perf
