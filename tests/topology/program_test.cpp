// tutti-topo as a person runs it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include <tutti/version.hpp>

#include "bootstrap/rendezvous.hpp"
#include "command.hpp"
#include "samples.hpp"
#include "topology/json.hpp"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using test::Outcome;

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef TUTTI_TOPO
    GTEST_SKIP() << "this build is without the tools";
#endif
  }

  static Outcome run(const std::string& arguments) { return launch("", arguments); }

  static Outcome launch([[maybe_unused]] const std::string& launcher,
                        [[maybe_unused]] const std::string& arguments) {
#ifdef TUTTI_TOPO
    return test::run_command(launcher + TUTTI_TOPO " " + arguments);
#else
    return {};
#endif
  }
};

TEST_F(Program, Shows) {
  EXPECT_EQ(run("show").status, 0);
  const Outcome outcome = run("show dgx-h100");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("dgx-h100: 8 GPUs, 8 network ports"));
  EXPECT_THAT(outcome.output, HasSubstr("    gpu3 NVIDIA H100 SXM [0000:41:00.0]  pcie x16, 48 GB/s\n"));
  EXPECT_THAT(outcome.output, HasSubstr("gpu3: port3 mlx5_3 (pcie switch, 48 GB/s)"));
  EXPECT_THAT(outcome.output, HasSubstr("\nrings\ngpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7\ngpu1 gpu2"));
  EXPECT_THAT(run("show uneven-box").output, HasSubstr("GB/s each, when all run at once\n"));
}

TEST_F(Program, Exports) {
  EXPECT_EQ(hash(from_json(run("export nvl72").output)), hash(*builtin("nvl72")));
  EXPECT_THAT(run("export nvl72 --format nccl").output, StartsWith("<system version=\"1\">"));
  const Outcome drawing = run("export dgx-a100 --format svg");
  EXPECT_THAT(drawing.output, StartsWith("<svg"));
  EXPECT_THAT(drawing.output, HasSubstr(">gpu7</text>"));
}

TEST_F(Program, AnswersOnPathsAndMeans) {
  EXPECT_THAT(run("paths gpu0 mlx5_7 --topology dgx-h100").output, StartsWith("sockets: 6 links, 22 GB/s"));
  const Outcome means = run("means 0 4 --topology pcie-box --nodes 2");
  EXPECT_THAT(means.output, HasSubstr(": rdma, 12.5 GB/s"));
  EXPECT_THAT(means.output,
              HasSubstr("  not gpudirect rdma: gpu0 of rank 0 and port0 are apart by \"host\""));
}

TEST_F(Program, ExplainsAnOperationOnAKnownMachine) {
  const Outcome outcome = run("explain all_reduce 1M --topology dgx-h100 --nodes 2");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("same node: rank 0 (gpu0 of host 0) -> rank 1"));
  EXPECT_THAT(outcome.output, HasSubstr("other node, same rail: rank 0 (gpu0 of host 0) -> rank 8"));
  EXPECT_THAT(outcome.output, HasSubstr("other node, other rail: "));
  EXPECT_THAT(outcome.output, HasSubstr("  not nvlink: no NVLink domain holds both hosts"));
  EXPECT_THAT(outcome.output, HasSubstr("fastest: "));
  EXPECT_THAT(outcome.output, HasSubstr("busiest link: "));
  EXPECT_THAT(outcome.output, HasSubstr("\nnot "));
}

// All that it prints, in order.
TEST_F(Program, ExplainsInTheseWords) {
  const std::string text = run("explain all_to_all 64K --topology dgx-h100 --nodes 2").output;
  std::size_t at = 0;
  for (const char* words :
       {"all_to_all of 64K on 16 ranks, 8 a node\n\ntransports\n",
        "same node: rank 0 (gpu0 of host 0) -> rank 1", ": nvlink, ",
        "other node, same rail: rank 0 (gpu0 of host 0) -> rank 8", ": gpudirect rdma, ",
        "  not nvlink: no NVLink domain holds both hosts\n", "other node, other rail: ",
        "\na communicator (CPU buffers, TCP between hosts) that was not tuned takes ", ", pieces up to 32K (",
        "the fastest by simulation with default constants)\n",
        "\nthe simulator, with buffers on the devices, on the paths of the topology\nfastest: ",
        " lanes, chunks of ", " in pieces of ", " messages: ", " us\nbusiest link: ", "% host ",
        "\nqueue pairs of an adapter, at most: ", "\nnot ", " us more\n  +"}) {
    const auto found = text.find(words, at);
    ASSERT_NE(found, std::string::npos) << words << "\nis not where it should be in\n" << text;
    at = found;
  }
  EXPECT_THAT(run("explain all_reduce 1M --topology dgx-h100 --nodes 9").output,
              HasSubstr("slower, not simulated to the end: "));
  EXPECT_THAT(run("explain all_reduce 64K").output,
              HasSubstr("the simulator, with default costs of shared memory that nobody measured here\n"));
}

TEST_F(Program, ExplainsToPrograms) {
  const auto all =
      nlohmann::json::parse(run("explain all_reduce 1M --topology pcie-box --nodes 2 --json").output);
  EXPECT_EQ(all.at("operation"), "all_reduce");
  EXPECT_EQ(all.at("bytes"), 1 << 20);
  EXPECT_EQ(all.at("ranks"), 8);
  for (const auto& pair : all.at("pairs")) {
    EXPECT_FALSE(pair.at("kind").get<std::string>().empty());
    EXPECT_NE(pair.at("from"), pair.at("to"));
    EXPECT_FALSE(pair.at("means").get<std::string>().empty());
    for (const auto& refused : pair.at("refused")) EXPECT_NE(refused.at("why"), "");
  }
  EXPECT_NE(all.at("library").at("algorithm"), "");
  EXPECT_GT(all.at("library").at("piece"), 0);
  EXPECT_EQ(all.at("library").at("why"), "the fastest by simulation with default constants");
  EXPECT_EQ(all.at("prediction").at("nodes"), 2);
  EXPECT_GT(all.at("prediction").at("candidates").size(), 2U);
}

// What the runner-up spends more adds up to the time by which it lost.
TEST_F(Program, ExplainsTheWholeDifference) {
  const Outcome outcome = run("explain all_reduce 64M --topology dgx-h100 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto all = nlohmann::json::parse(outcome.output);
  const auto& best = all.at("prediction").at("candidates").at(0);
  ASSERT_FALSE(all.at("lost").empty());
  for (const auto& loser : all.at("lost")) {
    double sum = 0;
    for (const auto& reason : loser.at("differences")) sum += reason.at("seconds").get<double>();
    const double seconds = loser.at("seconds").get<double>();
    EXPECT_NEAR(sum, seconds - best.at("seconds").get<double>(), 1e-6 * seconds);
  }
  EXPECT_EQ(all.at("pairs").at(0).at("means"), "nvlink");
}

TEST_F(Program, ExplainsWhereAllTimeGoes) {
  const auto all = nlohmann::json::parse(run("explain all_reduce 64K --ranks 3 --json").output);
  for (const auto& one : all.at("prediction").at("candidates")) {
    auto sum = one.at("besides_seconds").get<double>();
    for (const auto& [part, spent] : one.at("critical_path").items())
      if (part.ends_with("_seconds")) sum += spent.get<double>();
    const auto seconds = one.at("seconds").get<double>();
    EXPECT_NEAR(sum, seconds, 1e-9 * seconds) << one.at("algorithm");
  }
}

TEST_F(Program, ExplainsWhatTheLibraryChoosesHere) {
  const Outcome outcome = run("explain all_reduce 8 --ranks 3");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr(": shared memory"));
  EXPECT_THAT(outcome.output, HasSubstr("that was not tuned takes all_pairs, pieces up to 8K (the fastest by "
                                        "simulation with default constants)"));
  EXPECT_THAT(run("explain all_reduce 64M --ranks 8").output, HasSubstr(", pieces up to 32K ("))
      << "the messages of eight ranks are no longer";
  EXPECT_EQ(run("explain all_reduce 8 --nodes 2").status, 2);
  EXPECT_EQ(run("explain all_reduce 8 --ranks 1").status, 1);
}

TEST_F(Program, FindsTheWorldOfItsRanks) {
  EXPECT_THAT(run("world").output, StartsWith("1 ranks on 1 hosts of 1 kinds\nhost 0: this\n  rank 0: cpu"));
  const std::string mpirun = TUTTI_MPIRUN;
  if (mpirun.empty()) GTEST_SKIP() << "there is no mpirun";
#ifndef TUTTI_HAVE_PMIX
  GTEST_SKIP() << "built without PMIx";
#endif
  // PMIx leaks a few bytes of its own.
  const Outcome outcome =
      launch("ASAN_OPTIONS=detect_leaks=0 " + mpirun + " --allow-run-as-root --oversubscribe -n 3 ", "world");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("3 ranks on 1 hosts of 1 kinds"));
  EXPECT_THAT(outcome.output, HasSubstr("-> rank 2 (cpu"));
  EXPECT_THAT(outcome.output, HasSubstr(": shared memory"));
  EXPECT_THAT(outcome.output, HasSubstr("  not nvlink: the buffers are in the processors' memory"));
}

// Not all launchers say which rank of its host one is.
TEST_F(Program, GivesEachRankOfAHostAGpuOfItsOwn) {
  const std::string id = bootstrap::reserve_id("").to_string();
  const Outcome outcome = launch("for rank in 0 1; do TUTTI_SIZE=2 TUTTI_RANK=$rank TUTTI_ID=" + id + " ",
                                 "world --gpus & done; wait");
  EXPECT_THAT(outcome.output, AnyOf(HasSubstr("rank 1: gpu1"), HasSubstr("there is no GPU 1 on")));
}

TEST_F(Program, TakesTheWorldsOptionsFromTheEnvironment) {
  const Outcome outcome = launch("TUTTI_TIMEOUT=soon ", "world");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("TUTTI_TIMEOUT"));
  EXPECT_EQ(launch("TUTTI_TIMEOUT=soon ", "show dgx-h100").status, 0) << "waits for nobody";
  EXPECT_EQ(launch("TUTTI_TIMEOUT=soon ", "world --help").status, 0);
}

TEST_F(Program, SaysItsVersion) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "tutti " + std::string(version()) + "\n");
}

TEST_F(Program, FailsWhenItsOutputIsLost) {
  for (const char* arguments : {"show dgx-h100", "paths gpu0 gpu1 --topology dgx-h100"})
    EXPECT_EQ(run(std::string(arguments) + " >/dev/full").status, 1) << arguments;
  for (const char* lost : {"2>/dev/full", "2>&-"})
    EXPECT_EQ(run(std::string("paths gpu0 gpu9 --topology pcie-box ") + lost).status, 1) << lost;
}

TEST_F(Program, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(run("").status, 2);
  const Outcome bogus = run("show --bogus 3");
  EXPECT_EQ(bogus.status, 2);
  EXPECT_THAT(bogus.output, StartsWith("there is no option --bogus\n"));
  const Outcome mistyped = run("shwo");
  EXPECT_EQ(mistyped.status, 2);
  EXPECT_THAT(mistyped.output, StartsWith("there is no subcommand \"shwo\"\n"));
  EXPECT_EQ(run("--help").status, 0);
  const Outcome unknown = run("paths gpu0 gpu9 --topology pcie-box");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.output, HasSubstr("\"gpu9\" is no device of pcie-box; it has cpu0"));
  EXPECT_EQ(run("explain all_reduce -5").status, 2);
  EXPECT_EQ(run("explain juggle 8").status, 2);
  EXPECT_EQ(run("means 0 010 --topology dgx-h100 --nodes 2").status, 2) << "8, or 10?";
  EXPECT_EQ(run("explain all_reduce 8 --topology dgx-h100 --nodes 02").status, 2);
  EXPECT_EQ(run("explain all_reduce 8 --topology '' --nodes 2").status, 2);
  EXPECT_EQ(run("show there-is-no-such-file").status, 1);
}

}  // namespace
}  // namespace tutti::topology
