// tutti-perf as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/unique_id.hpp>
#include <tutti/version.hpp>

#include "base/deadline.hpp"
#include "command.hpp"
#include "perf/benchmark.hpp"
#include "perf/launch.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using test::Outcome;

Outcome run(const std::string& command) { return test::run_command(command); }

const std::string perf = TUTTI_PERF;
const std::string quick = " -n 2 --batches 2 -w 1 ";

class EveryOperation : public testing::TestWithParam<perf::Benchmark> {};

TEST_P(EveryOperation, GivesRightResults) {
  const std::string operation(GetParam().name);
  const Outcome outcome = run(perf + " " + operation + " --ranks 3 -b 4 -e 1M -f 64 -c 2 -r -1" + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const bool has_results = GetParam().kind != perf::Kind::barrier;
  EXPECT_THAT(outcome.output,
              HasSubstr(has_results ? "# Out of bounds values : 0 OK\n" : "# Out of bounds values : N/A\n"));
  EXPECT_THAT(outcome.output, HasSubstr("# Avg bus bandwidth"));
}

INSTANTIATE_TEST_SUITE_P(Perf, EveryOperation,
                         testing::ValuesIn(perf::benchmarks().begin(), perf::benchmarks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Perf, ChecksEveryTypeAndReduction) {
  const Outcome outcome = run(perf + " all_reduce --ranks 3 -b 4096 -e 4096 -t all -o all" + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 0 OK"));
  for (const char* word : {"fp8_e4m3", "fp8_e5m2", "bfloat16", "uint64", "average", "product", "mulsum"})
    EXPECT_THAT(outcome.output, HasSubstr(word));
}

TEST(Perf, MeasuresByEveryMethodAndSaysWhich) {
  const std::pair<const char*, const char*> methods[] = {
      {"--ranks 1", "ranks 1 "},
      {"--ranks 2", "#   rank 1: shm: shared memory"},
      {"--ranks 2 --threads", "#   rank 1: shm: shared memory (memfd), same process"},
      {"--ranks 2 --registered --explain", "#   at present: zero copy"},
      {"--ranks 2 --rewrite", " rewritten inputs"},
      {"--ranks 2 --no-pin", "0 OK"},
      {"--ranks 2 --transport tcp", "#   rank 1: tcp: tcp via lo 127.0.0.1 -> 127.0.0.1, 1 stream"},
  };
  for (const auto& [options, said] : methods) {
    const Outcome outcome = run(perf + " all_reduce -b 64 -e 64K -f 32 " + options + quick);
    EXPECT_EQ(outcome.status, 0) << options << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 0 OK"));
    EXPECT_THAT(outcome.output, HasSubstr(said)) << options;
  }
}

TEST(Perf, SaysItsVersion) {
  const Outcome outcome = run(perf + " --version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "tutti " + std::string(version()) + "\n");
  EXPECT_EQ(version(), header_version);
}

TEST(Perf, SaysWhatATimeIs) {
  const Outcome help = run(perf + " --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("the median of batches, of each its slowest rank's"));
}

TEST(Perf, RunsAloneAsOneRank) {
  const Outcome outcome = run(perf + " all_reduce -b 8 -e 8" + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks 1 "));
}

TEST(Perf, PlaysNoPingPongAlone) {
  for (const auto& [ranks, status] : {std::pair{"", 1}, {" --ranks 1", 2}}) {
    const Outcome outcome = run(perf + " ping_pong -b 8 -e 8" + ranks + quick);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("ping_pong takes two ranks or more, not one: give --ranks 2,"));
  }
}

TEST(Perf, Explains) {
  const Outcome outcome = run(perf + " all_reduce --ranks 2 -b 8 -e 8 --explain" + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# all_reduce"));
  for (const char* messages : {"sendrecv", "ping_pong"})
    EXPECT_THAT(run(perf + " " + messages + " --ranks 3 -b 8 -e 8 --explain" + quick).output,
                HasSubstr("# send(2 x float32, to rank 1) on 3 ranks\n"));
}

// The calls themselves try several ways.
TEST(Perf, ExplainsWhatTheMeasuredCallsCameTo) {
  const std::string registered = " --ranks 2 --registered --explain ";
  EXPECT_THAT(run(perf + " all_reduce -b 64K -e 64K -n 60 --batches 1" + registered).output,
              HasSubstr(" (measured: slots "));
  const Outcome outcome = run(perf + " all_to_all -b 1M -e 1M" + registered + quick);
  EXPECT_THAT(outcome.output, HasSubstr("#   zero copy: direct_pull, if the buffers of all ranks are "));
  EXPECT_THAT(outcome.output, HasSubstr("# in place: all_to_all(131072 x float32) on 2 ranks\n"));
  EXPECT_THAT(outcome.output, HasSubstr("#   zero copy: no: not in place\n"));
}

TEST(Perf, RefusesBadOptionsWithTheReason) {
  const Outcome operation = run(perf + " all_to_some");
  EXPECT_EQ(operation.status, 2);
  EXPECT_THAT(operation.output, HasSubstr("all_to_some"));
  EXPECT_THAT(operation.output, HasSubstr("all_gather_v"));
  const Outcome type = run(perf + " all_reduce -t float12");
  EXPECT_EQ(type.status, 2);
  EXPECT_THAT(type.output, HasSubstr("float12"));
  const Outcome sizes = run(perf + " all_reduce -b 128M");
  EXPECT_EQ(sizes.status, 2);
  EXPECT_THAT(sizes.output, HasSubstr("-b: is larger than -e (134217728 and 67108864 bytes)"));
  const Outcome root = run(perf + " broadcast --ranks 2 -r 2");
  EXPECT_EQ(root.status, 2);
  EXPECT_THAT(root.output,
              AllOf(HasSubstr("there is no root 2: ranks go from 0 to 1\n"), Not(HasSubstr("rank 1: "))));
  const Outcome launched = run(perf + " broadcast -r 2");  // how many ranks there are, the launcher says
  EXPECT_EQ(launched.status, 1);
  EXPECT_THAT(launched.output, HasSubstr("there is no root 2: ranks go from 0 to 0\n"));
  const Outcome transport = run(perf + " all_reduce --ranks 2 --transport pigeon");
  EXPECT_EQ(transport.status, 2);
  EXPECT_THAT(transport.output, HasSubstr("pigeon"));
}

// What follows an option that there is not looks like one more argument, or like the operation.
TEST(Perf, NamesTheOptionThatThereIsNot) {
  using testing::StartsWith;
  for (const char* options : {"all_reduce -g 1", "-g 1 all_reduce", "all_reduce -g 1 -z 0 -b 8"}) {
    const Outcome outcome = run(perf + " " + options);
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.output, StartsWith("there is no option -g\n")) << options;
  }
  EXPECT_THAT(run(perf + " all_reduce --ngpus=8").output, StartsWith("there is no option --ngpus\n"));
  const Outcome argument = run(perf + " all_reduce 64M 128M");
  EXPECT_EQ(argument.status, 2);
  EXPECT_THAT(argument.output, StartsWith("\"64M\" is one argument too many\n"));
  EXPECT_THAT(run(perf + " all_reduce -- 64M").output, StartsWith("\"64M\" is one argument too many\n"));
  EXPECT_THAT(run(perf + " all_reduce -t 4").output,
              AllOf(StartsWith("--datatype: "), HasSubstr("\"4\" is not an element type")));
  EXPECT_THAT(run(perf + " all_reduce -o 4").output,
              AllOf(StartsWith("--op: "), HasSubstr("\"4\" is not a reduction")));
  EXPECT_THAT(run(perf + " --help").output, HasSubstr("(-g, -t)"));
}

TEST(Perf, WritesJson) {
  const std::string file = testing::TempDir() + "tutti-perf." + std::to_string(::getpid()) + ".json";
  const Outcome outcome = run(perf + " all_gather --ranks 2 -b 1K -e 4K --json " + file + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream);
  std::remove(file.c_str());
  EXPECT_EQ(json.at("operation"), "all_gather");
  EXPECT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json.at("wrong"), 0);
  EXPECT_GT(json.at("average_busbw_gbs"), 0.0);
  ASSERT_EQ(json.at("rows").size(), 3U);
  const auto& row = json.at("rows").at(2);
  EXPECT_EQ(row.at("size"), 4096);
  EXPECT_EQ(row.at("count"), 512);
  for (const char* side : {"out_of_place", "in_place"}) {
    const auto& result = row.at(side);
    EXPECT_EQ(result.at("wrong"), 0);
    EXPECT_EQ(result.at("iterations"), 2);
    EXPECT_EQ(result.at("batches"), 2);
    EXPECT_GT(result.at("time_us"), 0.0);
    EXPECT_LE(result.at("p10_us"), result.at("time_us"));
    EXPECT_GE(result.at("p90_us"), result.at("time_us"));
    const double algbw = result.at("algbw_gbs"), time = result.at("time_us"), busbw = result.at("busbw_gbs");
    EXPECT_DOUBLE_EQ(algbw, 4096 / (time * 1e3));
    EXPECT_DOUBLE_EQ(busbw, algbw / 2);
  }
}

TEST(Perf, SaysWhereNothingIsChecked) {
  for (const std::string unchecked : {"barrier --rewrite", "all_reduce -b 8 -e 8 -c 0"}) {
    const std::string command = perf + " " + unchecked + " --ranks 2" + quick;
    EXPECT_THAT(run(command).output, HasSubstr("# Out of bounds values : N/A\n")) << unchecked;
    const auto json = nlohmann::json::parse(run(command + "--json - 2>/dev/null").output);
    EXPECT_TRUE(json.at("wrong").is_null()) << unchecked;
    EXPECT_TRUE(json.at("rows").at(0).at("out_of_place").at("wrong").is_null()) << unchecked;
  }
}

TEST(Perf, WritesJsonToTheStandardOutput) {
  const std::string barrier = perf + " barrier --ranks 2 --json ";
  const Outcome results = run(barrier + "-" + quick + "2>/dev/null");
  EXPECT_EQ(nlohmann::json::parse(results.output).at("operation"), "barrier");
  const Outcome table = run(barrier + "-" + quick + ">/dev/null");
  EXPECT_THAT(table.output, AllOf(HasSubstr("# Using ranks"), Not(HasSubstr("average_busbw_gbs"))));
  const std::string file = testing::TempDir() + "tutti-perf-both." + std::to_string(::getpid());
  const Outcome both = run(barrier + "/dev/stdout" + quick + ">" + file + "; cat " + file);
  std::remove(file.c_str());
  EXPECT_THAT(both.output, AllOf(HasSubstr("# Using ranks"), HasSubstr("average_busbw_gbs")));
}

TEST(Perf, FailsWhenTheJsonCannotBeWritten) {
  const Outcome outcome = run(perf + " barrier --ranks 2 --json /no/such/folder/x.json" + quick);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("/no/such/folder/x.json"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("out-of-place"))) << "nothing is measured for nothing";
}

TEST(Perf, FailsWhenItsOutputIsLost) {
  for (const char* ranks : {"", " --ranks 2", " --ranks 2 --threads"})
    for (const char* lost : {">/dev/full", ">&-"}) {
      const Outcome outcome = run(perf + " all_reduce -b 8 -e 8" + ranks + quick + lost);
      EXPECT_EQ(outcome.status, 1) << ranks << lost;
      EXPECT_THAT(outcome.output, HasSubstr("cannot write the standard output")) << ranks << lost;
    }
}

// A pager's, say. Rank 1 comes to its end meanwhile, and not to that of its deadline, and the results to
// their file; the table is longer than what is under way to a reader.
TEST(Perf, WaitsForAReaderWhoPausesWhileItMeasuresOn) {
  const std::string file = testing::TempDir() + "tutti-perf-read." + std::to_string(::getpid()) + ".json";
  int other = 0, rows = 0;
  bool written = false;
  const Outcome outcome = test::run_command(
      perf +
          " all_reduce --ranks 2 -b 8 -e 5K -i 8 -n 1 --batches 1 -w 0 -c 0 --no-pin --timeout 20 --json " +
          file,
      [&](const std::string& line) {
        if (!line.starts_with("#")) ++rows;
        std::smatch match;
        if (std::regex_search(line, match, std::regex("Rank +1 Pid +([0-9]+)"))) other = std::stoi(match[1]);
        if (line.find("(elements)") == std::string::npos) return;
        const auto ended = [&] { return other > 1 && ::kill(other, 0) != 0; };
        for (const Deadline deadline(1min); !(ended() && written) && !deadline.passed();) {
          std::this_thread::sleep_for(5ms);
          written = std::filesystem::exists(file);
        }
      });
  std::filesystem::remove(file);
  ASSERT_GT(other, 1) << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(rows, 640);
  EXPECT_TRUE(written);
}

// 12 bytes are the least of three ranks, and the most below 16.
TEST(Perf, MeasuresSizesThatComeToTheSameOnce) {
  const Outcome outcome = run(perf + " all_gather --ranks 3 -b 8 -e 64" + quick);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::vector<std::string> sizes;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#")) sizes.push_back(std::to_string(std::stoul(line)));
  EXPECT_EQ(sizes, (std::vector<std::string>{"12", "24", "60"}));
}

// Rank 0 prints the table, and made the group's id.
TEST(Perf, ReportsAChildThatIsKilled) {
  for (const std::string rank : {"2", "0"}) {
    int victim = 0;
    const std::regex place("Rank +" + rank + " Pid +([0-9]+)");
    const Outcome outcome = test::run_command(
        perf + " all_reduce --ranks 3 -b 8 -e 1M -n 1000000 --timeout 10", [&](const std::string& line) {
          std::smatch match;
          if (std::regex_search(line, match, place)) victim = std::stoi(match[1]);
          if (victim > 1 && line.find("(elements)") != std::string::npos) ::kill(victim, SIGKILL);
        });
    ASSERT_GT(victim, 1) << outcome.output;
    EXPECT_EQ(outcome.status, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("tutti-perf: rank " + rank + " (pid " + std::to_string(victim) +
                                          ") was killed by signal 9"));
    EXPECT_THAT(outcome.output, testing::ContainsRegex("tutti-perf: rank [012]: .*rank " + rank + " died"))
        << "the survivors say what they saw";
  }
}

TEST(Perf, SaysWhyRankZeroCouldNotBegin) {
  const Outcome outcome = run("TUTTI_INTERFACE=nowhere0 " + perf + " all_reduce --ranks 2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("tutti-perf: rank 0: "), HasSubstr("nowhere0"), Not(HasSubstr("group's id"))));
}

// The ranks of a job print to one terminal.
TEST(Perf, NamesTheRankThatMakesNoCommunicator) {
  const std::string nobody = UniqueId::create("127.0.0.1").to_string();
  const Outcome outcome =
      run("TUTTI_RANK=1 TUTTI_SIZE=2 TUTTI_TIMEOUT=0.1 TUTTI_ID=" + nobody + " " + perf + " all_reduce");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, testing::StartsWith("tutti-perf: rank 1: tutti: "));
}

TEST(Launch, NamesTheToolWhoseRankWasKilled) {
  perf::Settings settings;
  settings.ranks = 2;
  const pid_t parent = ::getpid();
  testing::internal::CaptureStderr();
  bool well = true;
  try {
    well = perf::run_processes("some-tool", settings, [](const Communicator& comm) {
      if (comm.rank() == 1) ::raise(SIGKILL);
      return true;
    });
  } catch (const Error&) {  // rank 0, where it still looked for the other
    if (::getpid() == parent) throw;
  }
  if (::getpid() != parent) std::_Exit(EXIT_SUCCESS);
  EXPECT_FALSE(well);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::StartsWith("some-tool: rank 1 (pid "));
}

// Each process would start ranks of its own, and print a table of its own.
TEST(Perf, StartsNoRanksUnderALauncherOfSeveral) {
  const std::string two =
      "TUTTI_SIZE=2 TUTTI_RANK=0 TUTTI_ID=" + UniqueId::create("127.0.0.1").to_string() + " ";
  const Outcome refused = run(two + perf + " all_gather --ranks 2");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.output, HasSubstr("--ranks: each of the 2 processes that tutti started would start 2"));
  const Outcome alone = run("TUTTI_SIZE=1 TUTTI_RANK=0 " + perf + " all_gather --ranks 2 -e 8" + quick);
  EXPECT_EQ(alone.status, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("ranks 2 "));
}

}  // namespace
}  // namespace tutti
