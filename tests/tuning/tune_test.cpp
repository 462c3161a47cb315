// tutti-tune as a user runs it.
#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tutti/unique_id.hpp>

#include "base/file_descriptor.hpp"
#include "command.hpp"
#include "own_folder.hpp"
#include "own_ranks.hpp"
#include "tune/check.hpp"
#include "tune/settings.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

class Tune : public testing::Test {
 protected:
  int run(const std::string& arguments, const std::string& environment = "TUTTI_TUNING=") {
    const test::Outcome outcome = test::run_command("XDG_CACHE_HOME=" + folder_.string() + " " + environment +
                                                    " " TUTTI_TUNE " " + arguments);
    output_ = outcome.output;
    return outcome.status;
  }
  static nlohmann::json read(const std::filesystem::path& file) {
    std::ifstream in(file);
    return nlohmann::json::parse(in);
  }

  const test::OwnFolder own_;
  const std::filesystem::path& folder_ = own_.path();
  std::string output_;
};

TEST_F(Tune, MeasuresWhereCommunicatorsLookAndChecksIt) {
  ASSERT_EQ(run("--ranks 2 3 --transport shm tcp --largest 2K --rounds 1"), 0) << output_;
  const auto folder = folder_ / "tutti" / "tuning";
  ASSERT_TRUE(std::filesystem::exists(folder)) << output_;
  const auto file = std::filesystem::directory_iterator(folder)->path();
  EXPECT_THAT(output_, HasSubstr("written: " + file.string()));
  const nlohmann::json tuning = read(file);
  ASSERT_EQ(tuning["curves"].size(), 4U);
  for (const auto& curve : tuning["curves"]) {
    EXPECT_EQ(curve["cpus"], own_cpus());
    ASSERT_EQ(curve["points"].size(), 5U);  // 8, 32, 128, 512, 2K
    for (const auto& point : curve["points"]) EXPECT_GT(point["alpha"], 0);
  }

  const auto checked = folder_ / "check.json";
  ASSERT_EQ(run("--ranks 2 --check --largest 512 --rounds 1 --json " + checked.string()), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("shm 2 all_reduce"));
  const nlohmann::json check = read(checked);
  ASSERT_EQ(check["questions"].size(), 8U * 4U);  // operations, sizes
  for (const auto& question : check["questions"]) {
    EXPECT_GT(question["chosen_seconds"], 0);
    EXPECT_GT(question["best_seconds"], 0);
    EXPECT_FALSE(question["prediction_errors"].empty());
  }
}

TEST(TuneSettings, NameNothingTwice) {
  const char* const arguments[] = {"tutti-tune", "--ranks", "3",   "2",      "3",       "--transport",
                                   "tcp",        "shm",     "tcp", "--file", "any.json"};
  const auto settings =
      std::get<tune::Settings>(tune::parse_command_line(static_cast<int>(std::size(arguments)), arguments));
  EXPECT_THAT(settings.ranks, testing::ElementsAre(3, 2));
  EXPECT_THAT(settings.transports, testing::ElementsAre("tcp", "shm"));
}

// One of two that are alike is ahead by chance in some rounds; and some rounds are slow.
TEST(Regret, IsNeitherOfChanceNorOfDisturbedRounds) {
  const std::vector<double> steady(6, 1), moody = {1, 1, 5, 5, 1, 1};
  EXPECT_DOUBLE_EQ(tune::regret_of(steady, {steady, {2, 2, 2, 2, 2, 2}}), 0);
  EXPECT_DOUBLE_EQ(tune::regret_of({2, 2, 2, 2, 10, 10}, {moody}), 1);
  EXPECT_DOUBLE_EQ(tune::regret_of({1.2}, {{1}, {1.5}}), 1.2 - 1);
  const std::vector<double> even = {0.9, 1.1, 0.9, 1.1, 0.9, 1.1}, odd = {1.1, 0.9, 1.1, 0.9, 1.1, 0.9};
  EXPECT_LT(tune::regret_of(steady, {even, odd}), 0);  // the minimum of each half would say 11 %
}

TEST(Verdicts, OfTheLargestSizesKeepTheirColumns) {
  const auto verdict = [](Collective collective, std::size_t bytes) {
    return tune::Verdict{
        .question = {.scene = {.transport = "shm", .ranks = 2}, .collective = collective, .bytes = bytes},
        .best = "ring"};
  };
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  tune::print(to,
              {verdict(Collective::all_reduce, 8), verdict(Collective::all_gather, std::size_t{1} << 44U)});
  std::fclose(to);
  std::istringstream lines(std::string(text, size));
  std::free(text);
  std::string line, head;
  std::getline(lines, line);
  std::getline(lines, head);
  for (int i = 0; i < 3; ++i) {
    std::getline(lines, line);
    EXPECT_EQ(line.find("ring"), head.find("best there")) << line;
  }
}

TEST_F(Tune, ChecksTheDefaultsOfAMachineThatWasNotTuned) {
  ASSERT_EQ(run("--ranks 2 --check --largest 8 --rounds 1"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("the library's default constants choose and predict"));
  ASSERT_EQ(run("--ranks 2 --check --largest 8 --rounds 1 --json - 2>/dev/null"), 0) << output_;
  EXPECT_EQ(nlohmann::json::parse(output_).at("questions").size(), 8U);
}

TEST_F(Tune, ReportsToNoFileOfConstants) {
  const std::string check = "--ranks 2 --check --largest 8 --rounds 1 --json ", tuning = "TUTTI_TUNING=";
  const auto file = folder_ / "mine.json", link = folder_ / "link.json";
  ASSERT_EQ(run("--ranks 2 --largest 8 --rounds 1 --file " + file.string()), 0) << output_;
  std::filesystem::create_symlink(file, link);
  const nlohmann::json before = read(file);
  EXPECT_EQ(run(check + link.string() + " --file " + file.string()), 2) << output_;
  EXPECT_THAT(output_, HasSubstr("--json: wants a file of its own, not that of the constants"));
  EXPECT_EQ(run(check + file.string(), tuning + link.string()), 2) << output_;
  EXPECT_EQ(read(file), before);

  ASSERT_EQ(run("--ranks 2 --largest 8 --rounds 1"), 0) << output_;
  const auto found = std::filesystem::directory_iterator(folder_ / "tutti" / "tuning")->path();
  EXPECT_EQ(run(check + found.string()), 2) << output_;
  EXPECT_EQ(run(check + found.string(), tuning + "off"), 0) << "then nobody looks there" << output_;
}

TEST_F(Tune, RefusesABrokenFile) {
  const auto file = folder_ / "broken.json";
  std::ofstream(file) << "{\"tutti_tuning\": 1";
  EXPECT_EQ(run("--ranks 2 --check --largest 8 --rounds 1 --file " + file.string()), 1);
  EXPECT_THAT(output_, HasSubstr("tuning \"" + file.string() + "\""));
}

TEST_F(Tune, ChecksNoOtherFileThanTheOneNamed) {
  EXPECT_EQ(run("--ranks 2 --check --largest 8 --rounds 1 --file " + (folder_ / "typo.json").string()), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("typo.json\": cannot be read"), HasSubstr("TUTTI_TUNING=off"),
                             Not(HasSubstr("shm 2 all_reduce"))));
}

TEST_F(Tune, KeepsWhatItDoesNotMeasureAgain) {
  const auto file = folder_ / "mine.json";
  const auto ranges_of = [](const nlohmann::json& tuning, const char* transport, int ranks) {
    std::vector<nlohmann::json> found;
    for (const auto& range : tuning["choices"])
      if (range["transport"] == transport && range["ranks"] == ranks) found.push_back(range);
    return found;
  };
  const std::string little = " --largest 8 --rounds 1 --file " + file.string();
  ASSERT_EQ(run("--ranks 2 3" + little), 0) << output_;
  const nlohmann::json first = read(file);
  ASSERT_EQ(run("--ranks 2 --transport tcp" + little), 0) << output_;
  EXPECT_THAT(output_, Not(HasSubstr("goes away")));
  const nlohmann::json second = read(file);
  ASSERT_EQ(second["curves"].size(), 3U);
  EXPECT_EQ(second["curves"][0], first["curves"][0]);
  EXPECT_EQ(second["curves"][1], first["curves"][1]);
  for (const int ranks : {2, 3}) EXPECT_EQ(ranges_of(second, "shm", ranks), ranges_of(first, "shm", ranks));
  EXPECT_FALSE(ranges_of(second, "tcp", 2).empty());
  ASSERT_EQ(run("--ranks 3" + little), 0) << output_;
  const nlohmann::json third = read(file);
  ASSERT_EQ(third["curves"].size(), 3U);
  EXPECT_EQ(third["curves"][0], second["curves"][0]);
  EXPECT_EQ(third["curves"][2], second["curves"][2]) << "tcp";
  EXPECT_NE(third["curves"][1], second["curves"][1]) << "measured again";

  nlohmann::json other = third;
  other["machine"] = third["machine"].get<std::uint64_t>() ^ 1U;
  std::ofstream(file) << other.dump();
  ASSERT_EQ(run("--ranks 2" + little), 0) << output_;
  EXPECT_THAT(output_,
              HasSubstr("# what " + file.string() + " held goes away: it was measured on another machine"));
  EXPECT_EQ(read(file)["curves"].size(), 1U);
}

// Of two that end together, one waits until the other one has written.
TEST_F(Tune, KeepsWhatOthersAreAboutToWrite) {
  const auto file = folder_ / "mine.json", others = folder_ / "others.json";
  const std::string little = " --largest 8 --rounds 1 --file ";
  ASSERT_EQ(run("--ranks 3" + little + others.string()), 0) << output_;
  FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(folder.get(), LOCK_EX), 0);
  const auto outcome = test::run_command("TUTTI_TUNING= " TUTTI_TUNE " --ranks 2" + little + file.string(),
                                         [&](const std::string& line) {
                                           if (line.find(" 8 ") == std::string::npos) return;  // the last row
                                           std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                           std::filesystem::rename(others, file);
                                           folder.reset();
                                         });
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(read(file)["curves"].size(), 2U);
}

TEST_F(Tune, MeasuresTheLargestSizeAsWell) {
  const auto file = folder_ / "mine.json";
  // Where programs reduce in the order of ranks, algorithms with another order are measured all the same.
  ASSERT_EQ(
      run("--ranks 2 --largest 68 --rounds 1 --file " + file.string(), "TUTTI_TUNING= TUTTI_RANK_ORDER=1"), 0)
      << output_;
  std::vector<std::size_t> sizes;
  const nlohmann::json tuning = read(file);
  for (const auto& point : tuning["curves"][0]["points"]) sizes.push_back(point["bytes"]);
  EXPECT_THAT(sizes, testing::ElementsAre(8, 32, 64));
}

// What it measures does not depend on what was measured before.
TEST_F(Tune, WritesAgainWhatWasDamaged) {
  const auto file = folder_ / "broken.json";
  std::ofstream(file) << "{\"tutti_tuning\": 1";
  EXPECT_EQ(run("--ranks 2 --largest 8 --rounds 1 --file " + file.string(), "TUTTI_TUNING=" + file.string()),
            0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("# what " + file.string() + " held goes away: "));
  EXPECT_LT(output_.find("goes away"), output_.find("alpha ns")) << "nobody could have stopped it";
  EXPECT_EQ(read(file)["curves"].size(), 1U);
}

TEST_F(Tune, LeavesNothingBehindWhenItFails) {
  EXPECT_EQ(run("--ranks 2 --largest 8 --rounds 1", "TUTTI_TUNING= TUTTI_INTERFACE=nowhere0"), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tutti" / "tuning")) << output_;
}

TEST_F(Tune, WritesAndChecksTheFileThatTheEnvironmentNames) {
  const auto file = folder_ / "mine.json";
  const std::string little = "--ranks 2 --largest 8 --rounds 1", named = "TUTTI_TUNING=" + file.string();
  EXPECT_EQ(run(little + " --check", named), 1);
  EXPECT_THAT(output_, HasSubstr("mine.json\": cannot be read"));
  EXPECT_EQ(run(little, named), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("written: " + file.string()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tutti"));
  EXPECT_EQ(run(little + " --check", named), 0) << output_;
  EXPECT_THAT(output_, Not(HasSubstr("default constants")));
}

TEST_F(Tune, WritesNoFileWhereCommunicatorsLookAtNone) {
  const std::string little = "--ranks 2 --largest 8 --rounds 1";
  EXPECT_EQ(run(little, "TUTTI_TUNING=off"), 2);
  EXPECT_THAT(output_, HasSubstr("TUTTI_TUNING is off, so communicators look at no file; name one"));
  EXPECT_EQ(run(little + " --check", "TUTTI_TUNING=off"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("# TUTTI_TUNING is off: the library's default constants"));
}

TEST_F(Tune, StartsNoRanksUnderALauncherOfSeveral) {
  const std::string id = UniqueId::create("127.0.0.1").to_string();
  EXPECT_EQ(run("--ranks 3 2 --check --largest 8 --rounds 1", "TUTTI_SIZE=2 TUTTI_RANK=0 TUTTI_ID=" + id), 2);
  EXPECT_THAT(output_, HasSubstr("--ranks: each of the 2 processes that tutti started would start 3 ranks of "
                                 "its own; start one process"));
}

TEST_F(Tune, FailsWhenItsOutputIsLost) {
  EXPECT_EQ(run("--ranks 2 --check --largest 8 --rounds 1 >/dev/full"), 1);
  EXPECT_THAT(output_, HasSubstr("cannot write the standard output"));
}

// /tmp, which here is full, may also be missing, or not to be written to.
TEST_F(Tune, NeedsNoFolderForWhatItMeasures) {
  if (test::run_command("unshare --mount true").status != 0) GTEST_SKIP() << "/tmp cannot be another one";
  const test::Outcome outcome = test::run_command(
      "unshare --mount sh -c 'mount -t tmpfs -o size=4k none /tmp && head -c 4096 /dev/zero >/tmp/full && "
      "test -x " TUTTI_TUNE " || exit 77; TUTTI_TUNING=off exec " TUTTI_TUNE
      " --ranks 2 --check --largest 8 --rounds 1'");
  if (outcome.status == 77) GTEST_SKIP() << "/tmp cannot be another one: " << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST_F(Tune, MeasuresNothingThatItCannotWrite) {
  const std::string little = "--ranks 2 --largest 8 --rounds 1 ";
  const auto folder = folder_.string();
  for (const std::string& file : {std::string("/dev/null/x.json"), folder, folder + "/"}) {
    EXPECT_EQ(run(little + "--file " + file), 1) << file;
    EXPECT_THAT(output_, AllOf(HasSubstr("cannot write " + file), Not(HasSubstr("alpha ns")))) << file;
    EXPECT_EQ(run(little + "--check --json " + file), 1) << file;
    EXPECT_THAT(output_, AllOf(HasSubstr("cannot write " + file), Not(HasSubstr("shm 2 all_reduce"))))
        << file;
  }
}

TEST_F(Tune, MeasuresNothingWhereATransportCannotWork) {
  const std::string little = "--ranks 2 --transport shm verbs --largest 8 --rounds 1";
  const std::string without = "TUTTI_TUNING= TUTTI_VERBS_DEVICES=no_such_device";
  EXPECT_EQ(run(little, without), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("one of 2 ranks by verbs failed"), Not(HasSubstr("alpha ns"))));
  EXPECT_EQ(run(little + " --check", without), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("by verbs failed"), Not(HasSubstr("shm 2 all_reduce"))));
}

TEST_F(Tune, MakesTheFolderOfItsFile) {
  const auto file = folder_ / "a" / "b" / "mine.json";
  EXPECT_EQ(run("--ranks 2 --largest 8 --rounds 1 --file " + file.string()), 0) << output_;
  EXPECT_EQ(read(file)["curves"].size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".new"));
}

TEST_F(Tune, WithoutAHomeWantsAFile) {
  const std::string tune = "cd " + folder_.string() +
                           "; env -u HOME -u XDG_CACHE_HOME TUTTI_TUNING= " TUTTI_TUNE
                           " --ranks 2 --largest 8 --rounds 1";
  const test::Outcome refused = test::run_command(tune);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("name a file with --file"), Not(HasSubstr("alpha ns"))));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  const test::Outcome checked = test::run_command(tune + " --check");
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_THAT(checked.output,
              HasSubstr("# a file of constants is not there: the library's default constants"));
}

TEST_F(Tune, RefusesWhatItDoesNotKnow) {
  for (const char* arguments :
       {"--ranks 1", "--transport pigeon", "--largest 7", "--largest -8", "--rounds 0", "--json x",
        "--check --json ''", "--file ''", "--file -", "--nothing"})
    EXPECT_EQ(run(arguments), 2) << arguments << output_;
}

}  // namespace
}  // namespace tutti
