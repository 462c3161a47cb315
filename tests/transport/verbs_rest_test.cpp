// Queue pairs beyond the cap are closed when both sides have nothing under way on them, and made anew on next
// use.
#include <gmock/gmock.h>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "thrown.hpp"
#include "verbs_devices.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

constexpr int never = 256;  ///< a cap: this rank does not ask

verbs::VerbsOptions rests_beyond(int peers) {
  verbs::VerbsOptions options;
  options.connected_peers = peers;
  options.idle_after = std::chrono::milliseconds(0);
  return options;
}

Subject never_connected_for_long(const std::string& name, int rails, const FakeDevice& like = {}) {
  return {.name = name,
          .make = [=](int ranks) { return fake_ranks(ranks, rails, like, rests_beyond(0)); },
          .patience = std::chrono::seconds(30)};
}

class VerbsRest : public ::testing::Test {
 protected:
  /// caps[r]: of rank r.
  void start(const std::vector<int>& caps) {
    ranks_ = verbs_ranks(static_cast<int>(caps.size()), same(fake_), [=](Rank rank) {
      return fake_options(rank, 2, rests_beyond(caps.at(static_cast<std::size_t>(rank))));
    });
  }
  Transport& at(Rank rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  void send(Rank from, Rank to) {
    std::byte ball{7};
    ASSERT_TRUE(at(from).sender(to, 0).try_send(&ball, 1, 1, false));
  }
  void receive(Rank to, Rank from) {
    std::byte ball{};
    EXPECT_TRUE(until([&] { return at(to).receiver(from, 0).try_receive(&ball, 1, 1); }));
    EXPECT_EQ(ball, std::byte{7});
  }
  /// This rank alone moves for a while: it asks to rest, and its peer does not know.
  void ask(Rank rank) {
    for (const Deadline idle(std::chrono::milliseconds(20)); !idle.passed();) at(rank).progress();
  }
  /// This rank goes, and rank 0 has seen that.
  void leave(Rank rank) {
    ranks_.at(static_cast<std::size_t>(rank)).reset();
    std::byte ball{};
    const auto is_gone = [&] {
      try {
        at(0).receiver(rank, 0).try_receive(&ball, 1, 1);
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    ASSERT_TRUE(until(is_gone, {0}));
  }
  template <class Condition>
  bool until(Condition condition, std::chrono::milliseconds time = std::chrono::seconds(20)) {
    for (const Deadline deadline(time); !deadline.passed();) {
      if (condition()) return true;
      for (auto& rank : ranks_) rank->progress();
    }
    return false;
  }
  /// Only these ranks move.
  template <class Condition>
  bool until(Condition condition, std::initializer_list<Rank> movers) {
    for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
      if (condition()) return true;
      for (const Rank rank : movers) at(rank).progress();
    }
    return false;
  }
  std::vector<std::uint64_t> open() {
    std::vector<std::uint64_t> all;
    for (const auto& rank : ranks_) all.push_back(rank->traffic().queue_pairs);
    return all;
  }
  using Counts = std::vector<std::uint64_t>;

  std::shared_ptr<verbs::Verbs> fake_ = fake_verbs(fabric_for(5, 2));
  Transports ranks_;
};

TEST_F(VerbsRest, TheLeastRecentlyUsedAreClosedAndMadeAnewOnNextUse) {
  start({2, 2, 2, 2, 2});
  for (Rank peer = 1; peer < 5; ++peer) {
    send(0, peer);
    receive(peer, 0);
    until([] { return false; }, std::chrono::milliseconds(3));  // so that one was used before the other
  }
  EXPECT_TRUE(until([&] { return open() == Counts{4, 0, 0, 2, 2}; }));  // two rails
  EXPECT_EQ(counters_of(*fake_).pairs, 8U);
  EXPECT_EQ(at(0).traffic().queue_pairs_closed, 4U);
  EXPECT_EQ(at(1).traffic().queue_pairs_closed, 2U);
  // From either side; 3 is now the one that was not used for longest.
  send(1, 0);
  receive(0, 1);
  EXPECT_TRUE(until([&] { return open() == Counts{4, 2, 0, 0, 2}; }));
  send(0, 2);
  receive(2, 0);
  EXPECT_TRUE(until([&] { return open() == Counts{4, 2, 2, 0, 0}; }));
}

TEST_F(VerbsRest, NobodyIsClosedBelowTheCap) {
  start({2, 2, 2});
  for (const Rank peer : {1, 2}) {
    send(0, peer);
    receive(peer, 0);
  }
  until([] { return false; }, std::chrono::milliseconds(20));
  EXPECT_EQ(open(), (Counts{4, 2, 2}));
  EXPECT_EQ(at(0).traffic().queue_pairs_closed, 0U);
}

FakeDevice with_room_for(int queue_pairs) {
  FakeDevice device;
  device.max_cqe = queue_pairs * (verbs::sends_a_peer + verbs::receives_a_peer);
  return device;
}

TEST_F(VerbsRest, ADeviceThatHoldsFewerThanTheCapHasRoomForOneMore) {
  fake_ = fake_verbs(fabric_for(4, 2, with_room_for(2)));
  start({never, never, never, never});
  for (const Rank peer : {1, 2}) {
    send(0, peer);
    receive(peer, 0);
  }
  ASSERT_TRUE(until([&] { return at(0).traffic().queue_pairs == 2; }));  // two rails
  send(0, 3);
  receive(3, 0);
}

// It holds three: that of the one who left, two that were used, and none for rank 4 unless one of these
// rests.
TEST_F(VerbsRest, WhatAPeerThatHasLeftHoldsIsNoRoomForOneMore) {
  fake_ = fake_verbs(fabric_for(5, 2, with_room_for(3)));
  start({never, never, never, never, never});
  send(0, 1);
  receive(1, 0);
  leave(1);
  std::byte ball{};
  for (const Rank peer : {2, 3}) {
    send(0, peer);
    ASSERT_TRUE(until([&] { return at(peer).receiver(0, 0).try_receive(&ball, 1, 1); }, {0, peer}));
  }
  ASSERT_TRUE(until([&] { return at(0).traffic().queue_pairs == 4; }, {0, 2, 3}));  // two rails
  send(0, 4);
  EXPECT_TRUE(until([&] { return at(4).receiver(0, 0).try_receive(&ball, 1, 1); }, {0, 4}));
}

TEST_F(VerbsRest, MorePeersAtATimeThanADeviceHoldsAreReportedWithItsLimit) {
  fake_ = fake_verbs(fabric_for(4, 1, with_room_for(2)));
  ranks_ = verbs_ranks(4, same(fake_), [](Rank rank) {
    auto options = fake_options(rank, 1);
    options.idle_after = std::chrono::hours(1);
    return options;
  });
  for (const Rank peer : {1, 2}) {
    send(0, peer);
    receive(peer, 0);
  }
  const auto error = test::thrown_by([&] { at(0).sender(3, 0); });
  EXPECT_THAT(error.text, ::testing::AllOf(::testing::HasSubstr("fake0 port 1: 2 queue pairs"),
                                           ::testing::HasSubstr("max_cqe")));
  EXPECT_EQ(error.ranks, std::vector<Rank>{0}) << "whose device it is";
}

// Rank 1 was not used for longest, and answers nothing any more.
TEST_F(VerbsRest, APeerThatHasLeftKeepsNobodyOpen) {
  start({1, never, never, never});
  send(0, 1);
  receive(1, 0);
  leave(1);
  std::byte ball{};
  for (const Rank peer : {2, 3}) {
    send(0, peer);
    ASSERT_TRUE(until([&] { return at(peer).receiver(0, 0).try_receive(&ball, 1, 1); }, {0, peer}));
  }
  EXPECT_TRUE(until([&] { return at(2).traffic().queue_pairs == 0; }, {0, 2, 3}));
  EXPECT_EQ(at(3).traffic().queue_pairs, 2U);
}

// A message that was not taken, a peer that does not look: both stay.
TEST_F(VerbsRest, WhatIsInUseIsNotClosed) {
  start({0, 0});
  send(0, 1);
  EXPECT_TRUE(until([&] { return at(0).sender(1, 0).flushed(); }));
  until([] { return false; }, std::chrono::milliseconds(20));
  EXPECT_EQ(open(), (Counts{2, 2}));
  receive(1, 0);
  EXPECT_TRUE(until([&] { return open() == Counts{0, 0}; }));
  EXPECT_EQ(counters_of(*fake_).pairs, 0U);
}

// Both begin again at once, many times; credits that were owed are not lost.
TEST_F(VerbsRest, CreditsOutliveQueuePairs) {
  start({0, 0});
  for (int round = 0; round < 30; ++round) {
    send(0, 1);
    send(1, 0);
    receive(1, 0);
    receive(0, 1);
    ASSERT_TRUE(until([&] { return open() == Counts{0, 0}; })) << round;
  }
  EXPECT_EQ(at(0).traffic().queue_pairs_closed, 60U);
  for (auto& rank : ranks_) EXPECT_EQ(dynamic_cast<verbs::VerbsTransport&>(*rank).credits_violated(), 0U);
  EXPECT_EQ(counters_of(*fake_).receiver_not_ready, 0U);
}

// All slots are filled by one who does not know yet that the other rests. Without a credit it cannot post,
// so what it has to send does not wake the link.
TEST_F(VerbsRest, CreditsOwedWakeTheLink) {
  start({never, 1, never});
  for (int k = 0; k < channel_credits; ++k) {
    send(0, 1);
    receive(1, 0);
  }
  until([] { return false; }, std::chrono::milliseconds(5));  // those credits return
  send(2, 1);                                                 // one peer too many
  std::byte ball{};
  ASSERT_TRUE(until([&] { return at(1).receiver(2, 0).try_receive(&ball, 1, 1); }, {1, 2}));
  ask(1);
  for (int k = 0; k < verbs::slots; ++k) send(0, 1);
  ASSERT_TRUE(until([&] { return open() == Counts{0, 2, 2}; }));
  send(0, 1);
  for (int k = 0; k <= verbs::slots; ++k) receive(1, 0);
}

// Rank 1 has asked to rest when it sends: the message waits for queue pairs that are made anew, and is not
// flushed before. Rank 0 sleeps through all of it but for what wakes it.
TEST_F(VerbsRest, WhatIsSentBehindTheQuestionWakesASleeper) {
  start({never, 0});
  for (int round = 0; round < 5; ++round) {
    send(0, 1);
    receive(1, 0);
    ask(1);
    send(1, 0);
    ASSERT_FALSE(at(1).sender(0, 0).flushed()) << "rank 1 has not asked";
    const Deadline enough(std::chrono::seconds(5));
    std::jthread sleeper([&] {
      std::byte ball{};
      while (!at(0).receiver(1, 0).try_receive(&ball, 1, 1) && !enough.passed())
        at(0).wait(std::chrono::seconds(10));
      EXPECT_EQ(ball, std::byte{7});
    });
    while (!at(1).sender(0, 0).flushed() && !enough.passed()) at(1).progress();
    sleeper.join();
    ASSERT_FALSE(enough.passed()) << "in round " << round;
  }
}

Subject on_devices_that_rest() {
  return {.name = "device", .make = [](int ranks) { return device_ranks(ranks, 1, rests_beyond(0)); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(VerbsFakeRests, Conformance, conformance_of(never_connected_for_long("two", 2)),
                         conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeRestsOwnReceives, Conformance,
                         conformance_of(never_connected_for_long("own", 1, without_shared_receives())),
                         conformance_name);
// On devices, in the lab.
INSTANTIATE_TEST_SUITE_P(VerbsRests, Conformance, conformance_of(on_devices_that_rest()), conformance_name);

}  // namespace tutti::transport::testing
