// tutti-perf --algorithm: what is forced is what runs, or is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "command.hpp"
#include "perf/launch.hpp"
#include "perf/sweep.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_of_algorithms(std::string_view operation) {
  if (operation.ends_with("_v")) operation.remove_suffix(2);
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms())
    if (name(algorithm.collective) == operation) names.emplace_back(algorithm.name);
  return names;
}

class ForcedAlgorithms : public testing::TestWithParam<perf::Benchmark> {};

TEST_P(ForcedAlgorithms, RunOrAreRefused) {
  const std::string operation(GetParam().name);
  int ran = 0;
  for (const std::string& forced : names_of_algorithms(operation)) {
    const test::Outcome outcome = test::run_command(TUTTI_PERF " " + operation + " --algorithm " + forced +
                                                    " --ranks 4 -b 1K -e 1K -n 1 --batches 1 -w 0 --explain");
    if (outcome.status == 2) {
      EXPECT_THAT(outcome.output, HasSubstr("has no algorithm \"" + forced + "\" that sends messages"));
      continue;
    }
    ++ran;
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(" algorithm: " + forced + "\n"));
    EXPECT_THAT(outcome.output, HasSubstr("#   algorithm " + forced + ": forced"));
  }
  EXPECT_GT(ran, 0);
}

std::vector<perf::Benchmark> with_algorithms() {
  std::vector<perf::Benchmark> all;
  for (const perf::Benchmark& benchmark : perf::benchmarks())
    if (!names_of_algorithms(benchmark.name).empty()) all.push_back(benchmark);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Perf, ForcedAlgorithms, testing::ValuesIn(with_algorithms()),
                         [](const auto& test) { return std::string(test.param.name); });

// What rank 1 of four sends in two all_reduces, out of place and in place, over the size of their buffers.
double sent_by(const char* algorithm) {
  const std::vector<const char*> arguments{
      "tutti-perf", "all_reduce", "--ranks", "4",  "--threads",   "--no-pin", "--transport", "tcp",
      "-b",         "1M",         "-e",      "1M", "-n",          "1",        "--batches",   "1",
      "-w",         "0",          "-c",      "0",  "--algorithm", algorithm};
  const auto settings = std::get<perf::Settings>(
      perf::parse_command_line(static_cast<int>(arguments.size()), arguments.data()));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"), std::fclose);
  std::uint64_t sent = 0;
  EXPECT_TRUE(perf::run_ranks("test-tools", settings, [&](Communicator& comm) {
    perf::sweep(comm, settings, nowhere.get());
    if (comm.rank() == 1) sent = comm.stats().bytes_sent;
    return true;
  }));
  return static_cast<double>(sent) / (1 << 20);
}

// docs/algorithms.md has these; what tutti-perf sends besides is little.
TEST(ForcedAlgorithm, SendsItsOwnBytes) {
  constexpr double little = 0.01;
  EXPECT_NEAR(sent_by("ring"), 2 * 1.5, little);
  EXPECT_NEAR(sent_by("doubling"), 2 * 2.0, little);
  EXPECT_NEAR(sent_by("all_pairs"), 2 * 3.0, little);
}

TEST(ForcedAlgorithm, IsInJson) {
  const std::string file =
      testing::TempDir() + "tutti-perf-algorithm." + std::to_string(::getpid()) + ".json";
  const std::string command = TUTTI_PERF " all_gather --ranks 2 -b 1K -e 1K -n 1 --json " + file;
  for (const std::string forced : {"", "ring"}) {
    EXPECT_EQ(test::run_command(command + (forced.empty() ? "" : " --algorithm " + forced)).status, 0);
    std::ifstream stream(file);
    EXPECT_EQ(nlohmann::json::parse(stream).at("algorithm"), forced);
  }
  std::remove(file.c_str());
}

TEST(ForcedAlgorithm, IsRefusedWithThoseThatThereAre) {
  struct Refused {
    const char *arguments, *reason;
  };
  for (const auto& [arguments, reason] :
       {Refused{"all_reduce --algorithm rign", "all_reduce has no algorithm \"rign\""},
        Refused{"all_to_all --algorithm ring", "it has pairwise, exchange, bruck"},
        Refused{"all_gather --algorithm direct_pull", "it has all_pairs, ring, doubling"},
        Refused{"all_gather_v --algorithm doubling", "it has all_pairs, ring\n"},
        Refused{"ping_pong --algorithm ring", "it has none"}}) {
    const test::Outcome outcome = test::run_command(TUTTI_PERF " --ranks 2 -e 8 " + std::string(arguments));
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(reason));
    EXPECT_THAT(outcome.output, testing::StartsWith("--algorithm: "));
  }
  const test::Outcome unordered =
      test::run_command("TUTTI_RANK_ORDER=1 " TUTTI_PERF " all_reduce --ranks 2 -e 8 --algorithm ring");
  EXPECT_EQ(unordered.status, 1);
  EXPECT_THAT(unordered.output, HasSubstr("algorithm ring does not reduce in rank order"));
}

}  // namespace
}  // namespace tutti
