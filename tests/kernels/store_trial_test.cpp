// How a writer finds out which stores are best for what another rank reads.
#include <gtest/gtest.h>

#include "kernels/fold.hpp"
#include "kernels/store_trial.hpp"

namespace tutti::kernels {

namespace {

constexpr std::size_t message = 8192;

/// What a message costs by either way, ticks.
struct Machine {
  std::uint64_t through, past;
};
constexpr Machine near{1000, 700};
constexpr Machine far{3700, 410};

class StoreTrialTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_pass_caches) GTEST_SKIP() << "this processor has no stores past its caches";
  }

  /// Of so many messages, those that go past the caches. Every `disturbed`th takes a hundred times as long.
  int write(int messages, const Machine& machine, int disturbed = 0, std::size_t bytes = message) {
    int past = 0;
    for (int i = 0; i < messages; ++i) {
      trial_.plan(bytes);
      const bool passes = trial_.past_caches();
      past += passes ? 1 : 0;
      const bool slow = disturbed != 0 && i % disturbed == 0;
      trial_.took(bytes, (passes ? machine.past : machine.through) * bytes / message * (slow ? 100 : 1));
    }
    return past;
  }

  StoreTrial trial_;
};

TEST_F(StoreTrialTest, GoesPastTheCachesWhereStoresThroughThemTakeFarLonger) {
  write(16, far);
  EXPECT_GE(write(1000, far), 980);
}

TEST_F(StoreTrialTest, StaysWhereTheyDoNot) {
  const int tried = write(1000, near);
  EXPECT_GE(tried, 3);
  EXPECT_LE(tried, 10) << "what loses is tried rarely";
  EXPECT_EQ(write(1000, near, 0, StoreTrial::least - 1), 0);
}

TEST_F(StoreTrialTest, FollowsAMoveEitherWay) {
  write(2000, near);
  write(600, far);
  EXPECT_GE(write(1000, far), 980);
  write(600, near);
  EXPECT_LE(write(1000, near), 20);
}

TEST_F(StoreTrialTest, IsNotMisledByMessagesThatSomethingElseMadeSlow) {
  EXPECT_LE(write(2000, near, 3), 20);
  write(600, far, 3);
  EXPECT_GE(write(1000, far, 3), 950);
}

TEST_F(StoreTrialTest, ShortMessagesFollowTheLongOnes) {
  constexpr std::size_t brief = StoreTrial::least / 2;
  EXPECT_EQ(write(100, far, 0, brief), 0);
  write(100, far);
  EXPECT_EQ(write(100, far, 0, brief), 100);
}

TEST_F(StoreTrialTest, ARepeatedBeginIsOne) {
  for (int i = 0; i < 1000; ++i) {
    const bool timed = trial_.plan(message);
    const bool past = trial_.past_caches();
    EXPECT_EQ(trial_.plan(message), timed);
    EXPECT_EQ(trial_.past_caches(), past);
    trial_.took(message, past ? near.past : near.through);
  }
}

TEST_F(StoreTrialTest, MessagesOfOtherLengthsCostAsMuchAByte) {
  for (int i = 0; i < 500; ++i) {
    EXPECT_LE(write(1, near, 0, message), 1);
    EXPECT_LE(write(1, near, 0, 8 * message), 1);
  }
  EXPECT_LE(write(1000, near), 20);
}

}  // namespace

}  // namespace tutti::kernels
