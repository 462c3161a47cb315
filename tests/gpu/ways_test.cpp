#include "gpu/ways.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "thrown.hpp"

namespace tutti::gpu {
namespace {

TEST(AgreeOnWays, ARankThatSaysSomethingElseIsNamed) {
  Setting setting;
  setting.group.size = 2;
  setting.group.all_gather = [](std::span<const std::byte> mine) {
    const std::string garbage = "something else";
    std::vector<std::byte> other(garbage.size());
    std::memcpy(other.data(), garbage.data(), garbage.size());
    return std::vector{std::vector(mine.begin(), mine.end()), other};
  };
  const auto error = test::thrown_by([&] { agree(setting, {{Way::device}, {Way::host, "no peer access"}}); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_EQ(error.ranks, std::vector<Rank>{1});
  EXPECT_NE(error.text.find("rank 1 runs another build"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace tutti::gpu
