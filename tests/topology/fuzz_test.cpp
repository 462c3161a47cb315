// Files with random mistakes: an Error or a machine, never a crash, and what is taken can be worked with.
#include <gtest/gtest.h>

#include <random>

#include "samples.hpp"
#include "topology/json.hpp"
#include "topology/nccl.hpp"
#include "topology/rings.hpp"
#include "topology/svg.hpp"
#include "topology/text.hpp"

namespace tutti::topology {
namespace {

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (int mistakes = 1 + pick(4); mistakes > 0 && !text.empty(); --mistakes) mutate(text);
    return text;
  }

 private:
  int pick(std::size_t below) {
    return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, below - 1)(random_));
  }

  void mutate(std::string& text) {
    const auto at = static_cast<std::size_t>(pick(text.size()));
    const auto length = std::min(static_cast<std::size_t>(1 + pick(60)), text.size() - at);
    switch (pick(7)) {
      case 0:  // another byte
        text[at] = static_cast<char>(pick(256));
        break;
      case 1:  // something missing
        text.erase(at, length);
        break;
      case 2:  // the same again
        text.insert(at, text.substr(at, length));
        break;
      case 3:  // cut off
        text.resize(at);
        break;
      case 4:  // another number
        if (const auto digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          constexpr const char* odd[] = {"-1", "0", "99999999999999999999", "1e300", "nan", "65536"};
          text.replace(digit, 1, odd[pick(6)]);
        }
        break;
      case 5: {  // a piece from elsewhere
        const auto from = static_cast<std::size_t>(pick(text.size()));
        text.replace(at, length, text.substr(from, length));
        break;
      }
      default: {  // a line twice
        const auto start = text.find('\n', at),
                   end = start == std::string::npos ? start : text.find('\n', start + 1);
        if (end != std::string::npos) text.insert(end, text.substr(start, end - start));
      }
    }
  }

  std::mt19937 random_;
};

/// Reads mutations of `sample`; returns how many were taken.
int survive(const std::string& sample, int tries) {
  int taken = 0;
  for (int i = 0; i < tries; ++i) {
    Mutator mutate(static_cast<unsigned>(i));
    try {
      const Machine machine = from_text(mutate(sample), "mutant");
      check(machine);
      ++taken;
      EXPECT_FALSE(to_svg(machine).empty());
      EXPECT_FALSE(tree(machine).empty());
      if (machine.nodes.size() > 64) continue;
      affinity_table(machine);
      path_matrix(machine);
      rings(machine);
      EXPECT_EQ(from_json(to_json(machine)).nodes.size(), machine.nodes.size());
      to_nccl_xml(machine);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    }
  }
  return taken;
}

TEST(Fuzz, Json) {
  EXPECT_GT(survive(to_json(*builtin("uneven-box")), 400), 0);
  EXPECT_GT(survive(to_json(*builtin("nvl72")), 400), 0);
}

using FuzzXml = testing::Xml;

TEST_F(FuzzXml, NcclFiles) {
  EXPECT_GT(survive(testing::complete, 800), 0);
  EXPECT_GT(survive(testing::skeleton, 400), 0);
  EXPECT_GT(survive(testing::amd, 400), 0);
  EXPECT_GT(survive(to_nccl_xml(*builtin("dgx-h100")), 200), 0);
}

TEST_F(FuzzXml, HwlocFiles) { EXPECT_GT(survive(testing::lstopo, 800), 0); }

}  // namespace
}  // namespace tutti::topology
