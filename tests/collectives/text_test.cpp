// The text form of schedules: written, read, and refused.
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <tutti/error.hpp>
#include <tutti/verify.hpp>

#include "collectives/algorithms.hpp"
#include "thrown.hpp"

namespace tutti {
namespace {

/// What the parser says about a text that it must refuse.
std::string refusal(const std::string& text) {
  const auto error = test::thrown_by([&] { static_cast<void>(parse_schedule(text)); });
  EXPECT_EQ(error.code, ErrorCode::invalid_schedule);
  return error.text;
}

constexpr const char* header = "broadcast \"x\" ranks 1 chunks 2\n";

TEST(Text, OfEveryAlgorithmParsesBack) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 6, 8, 17}) {
      const Schedule schedule = algorithm.make(ranks, ranks - 1, ranks > 3 ? 3 : 0);
      std::ostringstream stream;
      stream << schedule;
      EXPECT_EQ(stream.str(), to_text(schedule));
      EXPECT_EQ(parse_schedule(stream.str()), schedule) << stream.str();
    }
  }
}

TEST(Text, OfAnyValuesParsesBack) {
  Schedule schedule{"a \"b\" \\ # \n\t\x01 \xc3\xa9", Collective::gather, -3, 2, -1, -7, 99, {}};
  schedule.lanes.resize(2);
  schedule.lanes[1] = {{}, {{{in(-1, -2, 9), message(-4, 65535, -1)}, {}, true}}, {{{}, {}, false}}};
  EXPECT_EQ(parse_schedule(to_text(schedule)), schedule) << to_text(schedule);
}

TEST(Text, ReadsAsDocumented) {
  Builder b("ring", Collective::all_reduce, 4, 4, 1);
  b.at(3).store(out(3)).to(2, 1).fold(in(3)).from(0, 1).complete();
  EXPECT_EQ(to_text(std::move(b).build()),
            "all_reduce \"ring\" ranks 4 chunks 4 scratch 0 credits 1 root 0\n"
            "rank 0\n  lane 0\nrank 1\n  lane 0\nrank 2\n  lane 0\nrank 3\n  lane 0\n"
            "    out[3], to 2/1 = in[3] + from 0/1 complete\n");
}

TEST(Text, ExampleOfTheDocumentationIsProved) {
  std::ifstream file(TUTTI_SCHEDULES_PAGE);
  ASSERT_TRUE(file) << TUTTI_SCHEDULES_PAGE;
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = page.find("```\n") + 4;
  const Schedule schedule = parse_schedule(page.substr(begin, page.find("```", begin) - begin));
  Proof proof;
  for (const bool in_place : {false, true}) {
    const auto fault = verify(schedule, {0, 2, in_place, false}, &proof);
    EXPECT_FALSE(fault) << to_string(*fault);
    EXPECT_TRUE(proof.same_everywhere);
  }
  EXPECT_EQ(schedule.name, "two of us");
}

TEST(Text, BlanksCommentsAndKeysAreFree) {
  const Schedule schedule = parse_schedule(
      "# first\r\n\n  broadcast\t\"#\" chunks 2 root 0 ranks 1 # header\r\nrank 0#\nlane 0\n"
      "out[0:2],scratch[ 1 : 2 ]=in[0:2]complete# done");
  EXPECT_EQ(schedule.name, "#");
  EXPECT_EQ(schedule.lanes,
            (std::vector<std::vector<Lane>>{{{{{in(0, 2)}, {out(0, 2), scratch(1, 2)}, true}}}}));
}

TEST(Text, ErrorsSayLineAndCause) {
  const std::string h = header;
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string what = refusal(text);
    EXPECT_NE(what.find(part), std::string::npos) << text << "\n-> " << what;
  };
  says("", "line 1: expected a schedule to begin with its collective, found the end of the line");
  says("# a page\n\n", "line 2: expected a schedule to begin with its collective");
  says("\n\nallreduce \"x\"", "line 3: expected the name of a collective, found 'allreduce \"x\"'");
  says("broadcast x", "line 1: expected '\"', found 'x'");
  says("broadcast \"x", "line 1: expected '\"', found the end of the line");
  says("broadcast \"\\q\"", "line 1: expected \\\", \\\\ or \\x and two hexadecimal digits");
  says("broadcast \"x\" ranks 1", "line 1: expected ranks N and chunks N");
  says("broadcast \"x\" ranks 99999999999 chunks 1", "line 1: expected a number of ranks");
  says("broadcast \"x\" ranks 2 chunks 1 ranks 3", "line 1: expected ranks only once, found 'ranks 3'");
  says("broadcast \"x\" ranks 2chunks 1", "line 1: expected a number of ranks");
  says("broadcast \"x\" lanes 3",
       "line 1: expected ranks, chunks, scratch, credits or root, found 'lanes 3'");
  says("broadcast \"x\" ranks 2000000000 chunks 1", "ends after 0 of 2000000000 ranks");
  says(h + "lane 0", "line 2: expected rank 0, found 'lane 0'");
  says(h + "rank 1", "line 2: expected rank 0 next, found '1'");
  says(h + "rank 0\nrank 1", "line 3: expected no more than 1 ranks");
  says(h + "rank 0\nout[0] = in[0]", "line 3: expected lane 0");
  says(h + "rank 0\nlane 1", "line 3: expected lane 0 next, found '1'");
  says(h + "rank 0\nlane 0\nout[0]", "line 4: expected '=', found the end of the line");
  says(h + "rank 0\nlane 0\nout[0 = in[0]", "line 4: expected ']', found '= in[0]'");
  says(h + "rank 0\nlane 0\nout[0] = to 1", "line 4: expected in[...], out[...], scratch[...] or from RANK");
  says(h + "rank 0\nlane 0\nto 1/70000 = in[0]", "line 4: expected a channel (0 to 65535)");
  says(h + "rank 0\nlane 0\nout[0] = in[0] completed",
       "line 4: expected the end of the line, found 'completed'");
}

TEST(Text, HostileTextIsParsedOrRefused) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  int parsed = 0;
  int refused = 0;
  for (const Algorithm& algorithm : algorithms()) {
    const std::string text = to_text(algorithm.make(3, 1));
    for (int trial = 0; trial < 100; ++trial) {
      std::string mutant = text;
      for (std::size_t edits = 1 + below(4); edits-- > 0 && !mutant.empty();) {
        const std::size_t at = below(mutant.size());
        switch (below(9)) {
          case 0:
            mutant.erase(at, 1 + below(12));
            break;
          case 1:
            mutant.insert(at, text, below(text.size()), 1 + below(30));
            break;
          case 2:
            mutant[at] = static_cast<char>(below(256));
            break;
          case 3:
            mutant.insert(at, std::to_string(random()));
            break;
          case 4:
            mutant.resize(at);
            break;
          default:
            if (const std::size_t digit = mutant.find_first_of("0123456789", at);
                digit != std::string::npos) {
              mutant[digit] = static_cast<char>('0' + below(10));
            }
        }
      }
      try {
        const Schedule schedule = parse_schedule(mutant);
        EXPECT_EQ(parse_schedule(to_text(schedule)), schedule);
        static_cast<void>(verify(schedule, {0, 2, trial % 2 == 0, trial % 3 == 0}));
        ++parsed;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_schedule);
        ++refused;
      }
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tutti
