// tutti-sim as a person runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "command.hpp"
#include "simulation/compare.hpp"
#include "times_in.hpp"

namespace tutti::simulation {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using test::Outcome;
using test::times_in;

std::string slurp(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Program : public testing::Test {
 protected:
  void SetUp() override {
#ifndef TUTTI_SIM
    GTEST_SKIP() << "this build is without the tools";
#endif
  }

  static Outcome run([[maybe_unused]] const std::string& arguments,
                     [[maybe_unused]] const std::string& before = "") {
#ifdef TUTTI_SIM
    return test::run_command(before + TUTTI_SIM " " + arguments);
#else
    return {};
#endif
  }

  /// A file of this process, as tests run side by side; it goes with the test.
  std::string scratch(const std::string& extension) {
    files_.push_back(fmt::format("{}/tutti-sim-{}{}", testing::TempDir(), ::getpid(), extension));
    return files_.back();
  }
  ~Program() override {
    for (const std::string& file : files_) std::filesystem::remove(file);
  }

  /// The answers to `arguments`.
  nlohmann::json answers(const std::string& arguments) {
    const std::string file = scratch(".json");
    const Outcome outcome = run(arguments + " --json " + file);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return nlohmann::json::parse(slurp(file));
  }

 private:
  std::vector<std::string> files_;
};

// NVSwitch: every GPU sends n - 1 chunks of 1/n twice, 370.8 GB/s at most.
TEST_F(Program, BarriersHaveNoBandwidth) {
  for (const char* ranks : {"", " --topology pcie-box --ranks-per-node 1"})
    for (const auto& answer : answers("barrier 1M" + std::string(ranks)))
      for (const auto& one : answer["candidates"]) EXPECT_EQ(one["busbw_gb_s"], 0) << ranks;
}

TEST_F(Program, TwoShotOfADgxFollowsItsClosedForm) {
  const auto all = answers("all_reduce 1G --topology dgx-h100 --algorithm two_shot --piece 4M");
  ASSERT_EQ(all.size(), 1U);
  const auto& answer = all[0];
  EXPECT_EQ(answer["nodes"], 1);
  EXPECT_EQ(answer["ranks"], 8);
  EXPECT_EQ(answer["bytes"], 1 << 30);
  EXPECT_EQ(answer["collective"], "all_reduce");
  ASSERT_EQ(answer["candidates"].size(), 1U);
  const auto& one = answer["candidates"][0];
  const double gpu_bytes = 2.0 * (1 << 30) * 7 / 8;
  EXPECT_EQ(one["algorithm"], "two_shot");
  EXPECT_EQ(one["bytes_sent_most"], gpu_bytes);
  EXPECT_EQ(one["messages"], 8 * one["messages_sent_most"].get<int>());
  EXPECT_EQ(one["queue_pairs_per_adapter"], 0);
  EXPECT_DOUBLE_EQ(one["links"][0]["bytes"], gpu_bytes);
  const double seconds = one["seconds"];
  EXPECT_GE(seconds, gpu_bytes / 370.8e9);
  EXPECT_LT(seconds, gpu_bytes / 370.8e9 * 1.05);
  EXPECT_NEAR(one["busbw_gb_s"].get<double>(), gpu_bytes / seconds / 1e9, 1e-6);
  double path = 0;
  for (const char* part : {"latency", "link", "message", "copy", "fold", "step", "call"})
    path += one["critical_path"][std::string(part) + "_seconds"].get<double>();
  EXPECT_NEAR(path, seconds, 1e-9 * seconds);
}

// The two queue-pair counts of docs/simulation.md.
TEST_F(Program, CountsQueuePairs) {
  for (const auto& answer : answers("all_to_all 64K --nodes 2 8 --algorithm hierarchical")) {
    const int nodes = answer["nodes"];
    for (const auto& one : answer["candidates"]) {
      EXPECT_EQ(one["queue_pairs_per_adapter"], nodes - 1);
      EXPECT_EQ(one["queue_pair_context_bytes"], 232 * (nodes - 1));
    }
  }
  const auto mesh = answers("all_to_all 64K --nodes 4 --algorithm pairwise");
  EXPECT_EQ(mesh[0]["candidates"][0]["queue_pairs_per_adapter"], 24);
}

/// The row of the table that begins with an algorithm's name, word by word from there.
std::vector<std::string> row(const std::string& table, const std::string& algorithm) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("  " + algorithm + " ");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

// 32 ranks of 2 KiB for each: 31 messages in each FIFO's four places, 24 peers on other nodes.
TEST_F(Program, PrintsQueuePairsTheirContextsAndBuffers) {
  const auto mesh = row(run("all_to_all 64K --nodes 4 --algorithm pairwise").output, "pairwise");
  ASSERT_GE(mesh.size(), 8U);
  EXPECT_EQ(mesh[1], "2K");                      // piece
  EXPECT_EQ(mesh[4], std::to_string(32 * 31));   // messages
  EXPECT_EQ(mesh[5], "24");                      // queue pairs an adapter
  EXPECT_EQ(mesh[6], size_text(24 * 232));       // their contexts
  EXPECT_EQ(mesh[7], size_text(31 * 4 * 2048));  // buffers of a rank
  const auto rail = row(run("all_to_all 64K --nodes 4 --algorithm hierarchical").output, "hierarchical");
  ASSERT_GE(rail.size(), 8U);
  EXPECT_EQ(rail[5], "3");
  EXPECT_EQ(rail[6], size_text(3 * 232));
  // From 3 nodes 8 blocks a message, from 7 neighbours one; and 8 blocks to be handed out.
  EXPECT_EQ(rail[7], size_text(4 * (3 * 8 + 7) * 2048 + 8 * 2048));
  const auto grid = row(run("all_to_all 64K --nodes 4 --algorithm grid").output, "grid");
  ASSERT_GE(grid.size(), 8U);
  EXPECT_EQ(grid[5], "2");  // one along the row, one down the column
  const auto alone = row(run("all_to_all 64K --algorithm pairwise").output, "pairwise");
  ASSERT_GE(alone.size(), 8U);
  EXPECT_EQ(alone[5], "0");
  EXPECT_EQ(alone[6], "0");
}

TEST_F(Program, AnswersForEverySizeAndNumberOfNodesFastestFirst) {
  const auto all = answers("all_gather 64K 4M --nodes 1 2 --topology pcie-box");
  ASSERT_EQ(all.size(), 4U);
  int at = 0;
  for (const int nodes : {1, 2})
    for (const int bytes : {64 << 10, 4 << 20}) {
      const auto& answer = all[static_cast<std::size_t>(at++)];
      EXPECT_EQ(answer["nodes"], nodes);
      EXPECT_EQ(answer["bytes"], bytes);
      EXPECT_EQ(answer["ranks"], 4 * nodes);
      EXPECT_GE(answer["candidates"].size(), 3U);
      double before = 0;
      for (const auto& one : answer["candidates"]) {
        EXPECT_GE(one["seconds"], before);
        before = one["seconds"];
      }
      EXPECT_TRUE(answer["left_out"].empty());  // up to 64 ranks, nothing is
    }
}

TEST_F(Program, PrintsATable) {
  const Outcome outcome = run("all_reduce 64M --nodes 16 --links 2");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, StartsWith(" nodes   ranks   bytes  algorithm"));
  EXPECT_THAT(outcome.output, HasSubstr("    16     128     64M  hierarchical"));
  EXPECT_THAT(outcome.output, HasSubstr("                  next  hierarchical"));
  EXPECT_THAT(outcome.output, HasSubstr("slower, not simulated to the end: all_pairs (64K"));
}

// 20,971,315,200 messages.
TEST_F(Program, KeepsItsColumnsForManyMessages) {
  std::istringstream lines(run("all_reduce 64M --nodes 12800 --algorithm hierarchical").output);
  std::string head, line;
  ASSERT_TRUE(std::getline(lines, head) && std::getline(lines, line));
  const auto at = head.find("busiest link");
  ASSERT_LT(at, line.size()) << line;
  EXPECT_THAT(line.substr(at - 2), ContainsRegex("^  [0-9]+% host")) << head << '\n' << line;
}

TEST_F(Program, MarksTimesThatAreEstimates) {
  const std::string chain = "broadcast 64M --algorithm chain --piece 256K --nodes 2 12";
  const std::string marked = run(chain).output;
  EXPECT_THAT(marked, ContainsRegex(" 16 +64M +chain +256K +[0-9]+\\.[0-9][0-9] "));
  EXPECT_THAT(marked, ContainsRegex(" 96 +64M +chain +256K +~[0-9]+\\.[0-9][0-9] "));
  EXPECT_THAT(marked, testing::EndsWith("\n" + std::string(estimate_note) + "\n"));
  EXPECT_THAT(run("broadcast 64M --algorithm chain --nodes 2").output, Not(HasSubstr("~")));
  const std::string file = scratch(".svg");
  const auto written = answers(chain + " --plot " + file);
  for (const int i : {0, 1}) EXPECT_EQ(written.at(i).at("candidates").at(0).at("estimated"), i == 1);
  const std::string drawn = slurp(file);
  EXPECT_EQ(times_in(drawn, ">~</text>"), 1);
  EXPECT_THAT(drawn, HasSubstr(fmt::format(">{}</text>", estimate_note)));
}

TEST_F(Program, DrawsALineForEveryNumberOfRanks) {
  const std::string file = scratch(".svg");
  EXPECT_EQ(run("all_reduce 1M 16M 64M --nodes 1 2 --plot " + file).status, 0);
  const std::string lines = slurp(file);
  EXPECT_THAT(lines, AllOf(StartsWith("<svg"), Not(HasSubstr("~"))));
  EXPECT_THAT(lines, HasSubstr("all_reduce: predicted time (us) over size"));
  EXPECT_EQ(times_in(lines, "<polyline"), 2);
  EXPECT_EQ(times_in(lines, "<circle"), 6);
  EXPECT_THAT(lines, HasSubstr(">16 ranks</text>"));
  EXPECT_THAT(lines, Not(HasSubstr("nan")));
  EXPECT_EQ(run("all_reduce 1M --nodes 1 2 4 --plot " + file).status, 0);
  EXPECT_THAT(slurp(file), HasSubstr("all_reduce of 1M: predicted time (us) over ranks"));
  EXPECT_EQ(times_in(slurp(file), "<polyline"), 1);
  for (const char* order : {"64M 1M 16M --nodes 2 1 --plot ", "1M 16M 64M --nodes 1 2 --plot "}) {
    EXPECT_EQ(run(std::string("all_reduce ") + order + file).status, 0);
    EXPECT_EQ(slurp(file), lines) << order;
  }
  EXPECT_EQ(run("all_reduce 1M --plot " + file).status, 0);  // one point
  EXPECT_EQ(times_in(slurp(file), "<circle"), 1);
  EXPECT_EQ(times_in(slurp(file), "text-anchor=\"end\""), 2);  // powers of ten around it
  EXPECT_THAT(slurp(file), Not(HasSubstr("nan")));
}

// Logarithmic axes have no place for them.
TEST_F(Program, DrawsNeitherNoTimeNorNoBytes) {
  const std::string file = scratch(".svg");
  EXPECT_EQ(run("all_reduce 0 64K --plot " + file).status, 0);
  EXPECT_EQ(times_in(slurp(file), "<circle"), 1);
  EXPECT_THAT(slurp(file), Not(HasSubstr("nan")));
  EXPECT_THAT(slurp(file), Not(HasSubstr("inf")));
  EXPECT_EQ(run("barrier 8 --ranks-per-node 1 --plot " + file).status, 0);
  EXPECT_THAT(slurp(file), StartsWith("<svg"));
  EXPECT_EQ(times_in(slurp(file), "<circle"), 0);
  EXPECT_EQ(run("barrier 0 --nodes 1 2 --plot " + file).status, 0);
  EXPECT_EQ(times_in(slurp(file), "<circle"), 2);
}

TEST_F(Program, WritesResultsToTheStandardOutput) {
  const Outcome results = run("all_reduce 1K 2K --json - 2>/dev/null");
  EXPECT_EQ(nlohmann::json::parse(results.output).size(), 2U);
  EXPECT_THAT(run("all_reduce 1K 2K --json - >/dev/null").output, StartsWith(" nodes   ranks   bytes"));
  EXPECT_THAT(run("all_reduce 1K 2K --plot - 2>/dev/null").output, StartsWith("<svg"));
}

TEST_F(Program, LeavesNoPartOfAFileThatMayNotBeSoLong) {
  const std::string file = scratch(".json"), draft = scratch(".json.new");
  const Outcome outcome = run("all_reduce 1K --json " + file, "ulimit -f 1; ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("cannot write " + file));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(draft));
}

TEST_F(Program, SaysWhatIsWrong) {
  const struct {
    const char *arguments, *text;
    int status;
  } cases[] = {
      {"", "operation is required", 2},
      {"all_reduce", "bytes is required", 2},
      {"all_redeuce 1M", "all_redeuce", 2},
      {"all_reduce many", "bytes: \"many\" is no size from 0 to", 2},
      {"all_reduce -5", "no size from 0 to", 2},
      {"all_reduce 99999999999999999999", "no size from 0 to", 2},
      {"all_reduce 1T", "no size from 0 to", 2},
      {"all_reduce 1M --nodes 0", "--nodes", 2},
      {"all_reduce 1M --piece 0", "--piece: \"0\" is no size from 1 to", 2},
      {"all_reduce 1M --algorithm bruck",
       "all_reduce has no algorithm \"bruck\" that sends messages; it has all_pairs, ", 2},
      {"all_reduce 1M --algorithm direct", "all_reduce has no algorithm \"direct\" that sends messages", 2},
      {"all_reduce 1M --json ''", "--json: names no file", 2},
      {"all_reduce 1M --plot ''", "--plot: names no file", 2},
      {"all_reduce 1M --effort nan", "--effort: \"nan\" is no number from 1e-6 to 1e6", 2},
      {"all_reduce 1M --effort 0", "--effort: \"0\" is no number from 1e-6 to 1e6", 2},
      {"all_reduce 1M --json - --plot -", "--plot: wants a file of its own", 2},
      {"all_reduce 1M --json - --plot /dev/stdout", "--plot: wants a file of its own", 2},
      {"all_reduce 1M --json /nowhere/x --plot /nowhere/./x", "--plot: wants a file of its own", 2},
      {"all_reduce 1K >/dev/full", "cannot write the standard output", 1},
      {"all_reduce 1M --topology nonsense", "nonsense", 1},
      {"all_reduce 1K --json /nowhere/at/all", "cannot write /nowhere/at/all", 1},
      {"all_reduce 1K --plot /nowhere/at/all", "cannot write /nowhere/at/all", 1},
  };
  for (const auto& [arguments, text, status] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text)) << arguments;
    EXPECT_THAT(outcome.output, Not(HasSubstr("terminate called"))) << arguments;
    EXPECT_THAT(outcome.output, Not(HasSubstr("busiest link"))) << arguments;
  }
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--topology"));
}

}  // namespace
}  // namespace tutti::simulation
