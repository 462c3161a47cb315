// What ranks tell each other before the first connection, and whom they blame when that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/ranks.hpp"
#include "tcp_ranks.hpp"

namespace tutti::transport::testing {

namespace {

using bootstrap::test::thrown_by;

TEST(TcpSetup, ARankOfAnotherBuildIsNamed) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  for (const std::size_t theirs : {0, 1, 11, 200}) {
    Group group = local_groups(2)[0];
    group.all_gather = [theirs](std::span<const std::byte> mine) {
      return std::vector{std::vector(mine.begin(), mine.end()), std::vector<std::byte>(theirs)};
    };
    const auto thrown = thrown_by([&] { tcp::TcpTransport(group, listeners[0], tcp_secret); });
    EXPECT_EQ(thrown.code, ErrorCode::mismatch) << theirs << " bytes: " << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, ::testing::HasSubstr("rank 1 runs another build of tutti"));
  }
}

}  // namespace

}  // namespace tutti::transport::testing
