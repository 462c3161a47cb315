// The real launchers: each test starts this program again under one of them.
#include <gmock/gmock.h>

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bootstrap/environment.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/ranks.hpp"
#include "command.hpp"
#include "times_in.hpp"

#ifdef __SANITIZE_ADDRESS__
/// libpmix 4.2 and what it loads do not free a few strings in PMIx_Finalize.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpmix\nleak:mca_"; }
#endif

namespace tutti::bootstrap::test {
namespace {

/// As the launcher that this process has says; empty: it has none.
std::string rank_here() {
  const char* const rank = std::getenv(std::getenv("PMIX_RANK") != nullptr ? "PMIX_RANK" : "PMI_RANK");
  return rank == nullptr ? "" : rank;
}

void meet_the_others() {
  const auto launch = launch_from_environment("", 20s);
  const auto session = Session::join(launch.id, launch.rank, launch.size, 20s);
  EXPECT_EQ(session->all_gather(bytes("x"), 20s), std::vector<Bytes>(3, bytes("x")));
  session->leave(10s);
  std::printf("MET\n");
}

/// What the started processes run; CTest leaves it out. Elsewhere the launcher found, which is none, would be
/// that of all further tests of the process.
class LaunchedRank : public testing::Test {
 protected:
  void SetUp() override {
    if (expected == nullptr) GTEST_SKIP() << "makes sense only under a launcher";
  }
  const char* expected = std::getenv("EXPECTED_LAUNCHER");
};

TEST_F(LaunchedRank, MakesTwoCommunicators) {
  for (int i = 0; i < 2; ++i) {
    const auto launch = launch_from_environment("", 20s);
    EXPECT_EQ(launch.launcher, expected);
    EXPECT_EQ(launch.size, 3);
    EXPECT_EQ(launch.local_size, 3);
    EXPECT_EQ(launch.local_rank, launch.rank);
    const auto session = Session::join(launch.id, launch.rank, launch.size, 20s);
    const auto all = session->all_gather(bytes(std::to_string(launch.rank)), 20s);
    EXPECT_EQ(all, (std::vector{bytes("0"), bytes("1"), bytes("2")}));
    session->leave(10s);
  }
  std::printf("GATHERED\n");
}

TEST_F(LaunchedRank, RankTwoIsAbsent) {
  const auto launch = launch_from_environment("", 20s);
  if (launch.rank == 2) return;
  const auto thrown = thrown_by([&] { Session::join(launch.id, launch.rank, launch.size, 500ms); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.ranks, testing::ElementsAre(2));
  std::printf("NAMED\n");
}

// It asks for an id when the time of the others is over, and they ask again.
TEST_F(LaunchedRank, RankTwoIsLate) {
  const char* const folder = std::getenv("FOLDER_OF_RANKS");
  const std::string rank = rank_here();
  ASSERT_TRUE(folder != nullptr && !rank.empty());
  const auto mark_of = [&](const std::string& one) { return std::filesystem::path(folder) / one; };
  if (rank == "2") {
    const Deadline deadline(30s);
    while (!deadline.passed() && !(exists(mark_of("0")) && exists(mark_of("1"))))
      std::this_thread::sleep_for(5ms);
  } else {
    EXPECT_EQ(thrown_by([] { launch_from_environment("", 1s); }).code, ErrorCode::timeout);
    std::ofstream(mark_of(rank)) << "has waited";
  }
  meet_the_others();
}

// It is the last one that is started.
TEST_F(LaunchedRank, RankTwoStopsTheLauncher) {
  ASSERT_FALSE(rank_here().empty());
  if (rank_here() == "2") {
    ::kill(::getppid(), SIGSTOP);
    const auto thrown = thrown_by([] { launch_from_environment("", 300ms); });
    ::kill(::getppid(), SIGCONT);
    EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
  }
  meet_the_others();
}

TEST_F(LaunchedRank, RankZeroCannotListen) {
  const auto thrown = thrown_by([] { launch_from_environment("nosuch0", 20s); });
  if (thrown.code != ErrorCode::invalid_argument) {  // it is not rank 0
    EXPECT_EQ(thrown.code, ErrorCode::aborted);
    EXPECT_THAT(thrown.ranks, testing::ElementsAre(0));
  }
  EXPECT_THAT(thrown.text, testing::HasSubstr("\"nosuch0\" does not exist"));
  std::printf("TOLD\n");
}

TEST_F(LaunchedRank, IsWhose) {
  std::printf("OF %s\n", find_launcher(Deadline(60s))->identity().launcher.c_str());
}

using tutti::test::Outcome;
using tutti::test::run_command;
using tutti::test::times_in;

std::string program() {
  std::array<char, 4096> path{};
  const auto length = ::readlink("/proc/self/exe", path.data(), path.size());
  return "'" + std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))) + "'";
}

/// What a process of `inner`'s says that is below one of `outer`'s, or of `outer`'s, too.
std::string said_below(const std::string& outer, const std::string& inner) {
  const std::string rank = "GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 EXPECTED_LAUNCHER=any " + program() +
                           " --gtest_filter=LaunchedRank.IsWhose";
  return run_command(outer + " sh -c \"" + inner + ' ' + rank + "; true\"").output;  // true: so that sh stays
}

// Both have the variables of both.
TEST(NestedLaunchers, OfTwoTheOneThatCameLastCounts) {
  const std::string torchrun = "TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1";
  const std::string other = "PMI_FD=987 PMI_RANK=0 PMI_SIZE=2";
  EXPECT_THAT(said_below(other, torchrun), testing::HasSubstr("OF torchrun\n")) << "srun torchrun";
  EXPECT_THAT(said_below(torchrun, other), testing::HasSubstr("OF PMI-1\n")) << "torchrun mpiexec";
  EXPECT_THAT(said_below(torchrun + ' ' + other, "x=y"), testing::HasSubstr("OF PMI-1\n")) << "left over";
  EXPECT_THAT(said_below("PMIX_NAMESPACE=ended PMIX_RANK=0", other), testing::HasSubstr("OF PMI-1\n"))
      << "mpirun mpiexec";
}

// Its number there is that of another process here.
TEST(NestedLaunchers, AProcessInAnotherNamespaceThanProcIsSeenThere) {
  const std::string both = "TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1 PMI_FD=987 PMI_RANK=0 PMI_SIZE=2";
  const std::string apart = "unshare --pid --fork env";
  if (run_command(apart).status != 0) GTEST_SKIP() << "this user cannot make namespaces of process ids";
  EXPECT_THAT(said_below(both, apart), testing::HasSubstr("OF PMI-1\n")) << "left over";
}

TEST(NestedLaunchers, AnotherUsersProcessAboveIsNotTorchruns) {
  // By env: setpriv itself still has the rights of root, to reach a folder of root's, say.
  if (::geteuid() != 0 ||
      run_command("setpriv --reuid=65534 env " + program() + " --gtest_list_tests").status != 0)
    GTEST_SKIP() << "this user cannot start this program as another one";
  EXPECT_THAT(said_below("TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1",
                         "PMI_FD=987 PMI_RANK=0 PMI_SIZE=2 setpriv --reuid=65534 env"),
              testing::HasSubstr("OF PMI-1\n"))
      << "torchrun srun";
}

// A shell that a rank was asked to open has them, and so has all that is started there later.
TEST(LeftoverVariables, AreNamedWithTheRemedy) {
#ifndef TUTTI_HAVE_PMIX
  GTEST_SKIP() << "built without PMIx";
#endif
  Child child([] {
    const Environment environment({{"PMIX_NAMESPACE", "ended"}, {"PMIX_RANK", "0"}});
    const auto thrown = thrown_by([] { find_launcher(Deadline(60s)); });
    return thrown.code == ErrorCode::system && thrown.text.find("unset them") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

struct LauncherCommand {
  const char* name;
  const char* binary;
  const char* start;
};

class Launchers : public testing::TestWithParam<LauncherCommand> {
 protected:
  static Outcome start(const std::string& test, const std::string& variables = "") {
    const auto [name, binary, command] = GetParam();
    // All of that test, where this one is of a shard.
    return run_command(variables + " GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 FOLDER_OF_RANKS='" + folder() +
                       "' EXPECTED_LAUNCHER=" + std::string(name) + " timeout 60 " + command + " " +
                       program() + " --gtest_filter=LaunchedRank." + test);
  }
  static std::string folder() {
    return std::filesystem::temp_directory_path() / ("tutti-ranks-" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(folder()); }
  void SetUp() override {
    std::filesystem::create_directories(folder());
    if (run_command(std::string("command -v ") + GetParam().binary).status != 0)
      GTEST_SKIP() << GetParam().binary << " is not installed";
#ifndef TUTTI_HAVE_PMIX
    if (GetParam().name == std::string("PMIx")) GTEST_SKIP() << "built without PMIx";
#endif
  }
};

INSTANTIATE_TEST_SUITE_P(
    Environment, Launchers,
    testing::Values(LauncherCommand{"PMIx", "mpirun.openmpi",
                                    "mpirun.openmpi --allow-run-as-root --oversubscribe -n 3"},
                    LauncherCommand{"PMI-1", "mpiexec.hydra", "mpiexec.hydra -n 3"}),
    [](const auto& instance) { return instance.index == 0 ? "OpenMpi" : "Hydra"; });

TEST_P(Launchers, RanksFindEachOtherTwice) {
  const auto outcome = start("MakesTwoCommunicators");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "GATHERED"), 3) << outcome.output;
}

TEST_P(Launchers, CountWhereOneOfAnothersProcessesCallsThem) {
  const auto outcome = start("MakesTwoCommunicators",
                             "TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1 PMI_FD=987 PMI_RANK=0 PMI_SIZE=2");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "GATHERED"), 3) << outcome.output;
}

TEST_P(Launchers, AnAbsentRankIsNamed) {
  const auto outcome = start("RankTwoIsAbsent");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "NAMED"), 2) << outcome.output;
}

TEST_P(Launchers, RanksThatWereTooEarlyMeetALateOne) {
  const auto outcome = start("RankTwoIsLate");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "MET"), 3) << outcome.output;
}

TEST_P(Launchers, OneThatIsStoppedAnswersLater) {
  const auto outcome = start("RankTwoStopsTheLauncher");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "MET"), 3) << outcome.output;
}

TEST_P(Launchers, WhyThereIsNoIdIsTold) {
  const auto start_of_all = Clock::now();
  const auto outcome = start("RankZeroCannotListen");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(times_in(outcome.output, "TOLD"), 3) << outcome.output;
  EXPECT_LT(Clock::now() - start_of_all, 15s);
}

}  // namespace
}  // namespace tutti::bootstrap::test
