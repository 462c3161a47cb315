// What the verbs transport does when devices fail: each fault is planted, shown to have fired, and must come
// out as an error that names it. On the fake fabric, and on real devices where there are some.
#include <gmock/gmock.h>

#include <array>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "thrown.hpp"
#include "verbs_devices.hpp"
#include "verbs_faulty.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

enum class On : std::uint8_t { fake, devices };
void PrintTo(On on, std::ostream* out) { *out << (on == On::fake ? "the fake fabric" : "real devices"); }

/// Two ranks; what rank 0 calls goes through `faults`.
class VerbsErrors : public ::testing::TestWithParam<On> {
 protected:
  void SetUp() override {
    if (GetParam() == On::devices && device_nodes(1).empty()) GTEST_SKIP() << "no RDMA device";
    below_ = GetParam() == On::fake ? fake_verbs(fabric_for(2, 1)) : verbs::real_verbs();
    faulty_ = std::make_shared<FaultyVerbs>(below_, faults_);
  }
  void start(verbs::VerbsOptions options = {}) {
    options.prove_gid = false;  // its messages are not the ones to fail
    ranks_ = verbs_ranks(
        2, [this](Rank rank) { return rank == 0 ? faulty_ : below_; },
        [&](Rank rank) {
          return GetParam() == On::fake ? fake_options(rank, 1, options) : device_options(rank, 1, options);
        });
  }
  /// One message each way.
  void use() {
    std::byte ball{1};
    for (const Rank from : {0, 1}) {
      ranks_[static_cast<std::size_t>(from)]->sender(1 - from, 0).try_send(&ball, 1, 1, false);
      eventually(ranks_, [&] {
        return ranks_[static_cast<std::size_t>(1 - from)]->receiver(from, 0).try_receive(&ball, 1, 1);
      });
    }
  }
  /// What rank 0 throws when it sends on, and rank 1 receives.
  Error error_of_sending(std::size_t bytes = 5000) {
    std::vector<std::byte> data(bytes);
    try {
      eventually(ranks_, [&] {
        ranks_[0]->sender(1, 0).try_send(data.data(), bytes, 2, false);
        ranks_[0]->sender(1, 0).flushed();
        ranks_[1]->receiver(0, 0).try_receive(data.data(), bytes, 2);
        return false;
      });
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::timeout, "no error came"};
  }

  std::shared_ptr<VerbsFaults> faults_ = std::make_shared<VerbsFaults>();
  std::shared_ptr<verbs::Verbs> below_, faulty_;
  Transports ranks_;
};

TEST_P(VerbsErrors, AFailedCompletionNamesItsStatus) {
  for (const auto status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_QP_OP_ERR}) {
    start();
    use();
    faults_->completion_status = status;
    const auto error = error_of_sending();
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("to rank 1"), HasSubstr(::ibv_wc_status_str(status)), HasSubstr("0x42")));
    EXPECT_EQ(error.ranks(), std::vector<Rank>{status == IBV_WC_LOC_QP_OP_ERR ? 0 : 1});
    EXPECT_EQ(error.code(), status == IBV_WC_RETRY_EXC_ERR ? ErrorCode::peer_lost : ErrorCode::system);
  }
  EXPECT_EQ(faults_->fired, 3);
}

TEST_P(VerbsErrors, APostThatFailsIsReported) {
  for (const bool partly : {false, true}) {
    verbs::VerbsOptions options;
    options.signal = verbs::Signal::separate;  // two requests a message
    start(options);
    use();
    faults_->partly = partly;
    faults_->post_fails_in = 3;
    EXPECT_THAT(error_of_sending().what(),
                AllOf(HasSubstr("posting work requests"),
                      HasSubstr(partly ? "1 of 2 were taken" : "0 of 2 were taken"), HasSubstr("to rank 1")));
  }
  EXPECT_EQ(faults_->fired, 2);
}

// As libcxgb4 does it.
TEST_P(VerbsErrors, ANegativeResultIsAnErrnoToo) {
  start();
  use();
  faults_->post_result = -EINVAL;
  faults_->post_fails_in = 0;
  EXPECT_THAT(error_of_sending().what(),
              AllOf(HasSubstr("posting work requests"), HasSubstr("Invalid argument")));
  start();
  use();
  faults_->receive_error = -EINVAL;
  const std::byte ball{1};
  ranks_[1]->sender(0, 0).try_send(&ball, 1, 1, false);
  EXPECT_THAT(error_of_sending().what(),
              AllOf(HasSubstr("posting a receive"), HasSubstr("Invalid argument")));
  EXPECT_EQ(faults_->fired, 2);
}

TEST_P(VerbsErrors, AQueuePairThatIsNotGrantedIsReported) {
  start();
  faults_->create_pair_error = ENOMEM;
  const auto error = error_of_sending();
  EXPECT_THAT(error.what(), AllOf(HasSubstr("creating a queue pair"), HasSubstr("ulimit -l")));
  EXPECT_EQ(error.ranks(), std::vector<Rank>{0}) << "whose limit it is";
  EXPECT_EQ(faults_->fired, 1);
  EXPECT_THAT(error_of_sending().what(), HasSubstr("creating a queue pair")) << "for good";
}

TEST_P(VerbsErrors, InlineThatIsNotGrantedIsDoneWithout) {
  start();
  faults_->create_pair_error = EINVAL;
  use();
  EXPECT_EQ(faults_->fired, 1);
  EXPECT_EQ(ranks_[1]->traffic().messages_received, 1U);
}

TEST_P(VerbsErrors, ASharedReceiveQueueThatIsNotGrantedIsDoneWithout) {
  faults_->create_shared_error = ENOSYS;
  start();
  use();
  EXPECT_EQ(faults_->fired, 1);
  EXPECT_EQ(ranks_[0]->traffic().messages_received, 1U);
}

TEST_P(VerbsErrors, AReceiveThatIsRefusedIsReported) {
  start();
  faults_->receive_error = ENOMEM;
  EXPECT_THAT(error_of_sending().what(), HasSubstr("posting a receive"));
}

TEST_P(VerbsErrors, AReceiveThatIsRefusedNamesBothRanksAndLosesNothing) {
  start();
  use();
  faults_->receive_error = ENOMEM;
  const std::byte ball{2};
  ASSERT_TRUE(ranks_[1]->sender(0, 0).try_send(&ball, 1, 3, false));
  const auto error = thrown_by([&] { eventually(ranks_, [] { return false; }); });
  EXPECT_THAT(error.text, AllOf(HasSubstr("posting a receive"), HasSubstr("to rank 1")));
  EXPECT_EQ(error.ranks, std::vector<Rank>{0}) << "whose device it is";
  std::byte got{};
  EXPECT_TRUE(ranks_[0]->receiver(1, 0).try_receive(&got, 1, 3));
  EXPECT_EQ(got, ball);
}

TEST_P(VerbsErrors, SlotsThatCannotBeRegisteredFailTheirLink) {
  start();
  use();
  faults_->register_error = ENOMEM;
  std::byte ball{};
  for (int k = 0; k < 2; ++k) {
    const auto error = thrown_by([&] { ranks_[0]->receiver(1, 3).try_receive(&ball, 1, 1); });
    EXPECT_THAT(error.text, HasSubstr("ulimit -l"));
    EXPECT_EQ(error.ranks, std::vector<Rank>{0});
  }
  EXPECT_EQ(faults_->fired, 1);
}

// Devices refuse posts to a queue pair whose peer has gone, here before this rank has looked that it has.

TEST_P(VerbsErrors, APostThatIsRefusedBecauseThePeerHasLeftSaysThat) {
  start();
  use();
  ranks_[1].reset();
  faults_->post_fails_in = 0;
  const std::byte ball{1};
  const auto error = thrown_by([&] {
    for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
      ranks_[0]->sender(1, 0).try_send(&ball, 1, 1, false);
      ranks_[0]->progress();
    }
  });
  EXPECT_EQ(error.code, ErrorCode::peer_lost) << error.text;
  EXPECT_EQ(error.ranks, std::vector<Rank>{1});
  EXPECT_EQ(faults_->fired, 1);
}

TEST_P(VerbsErrors, WhatAPeerSentBeforeItLeftIsTakenThoughNoReceiveCanBePostedAgain) {
  start();
  use();
  const std::byte ball{2};
  ASSERT_TRUE(ranks_[1]->sender(0, 0).try_send(&ball, 1, 3, false));
  ranks_[1].reset();
  faults_->receive_error = EINVAL;
  std::byte got{};
  const auto take = [&] {
    for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
      if (ranks_[0]->receiver(1, 0).try_receive(&got, 1, 3)) return true;
      ranks_[0]->progress();
    }
    return false;
  };
  EXPECT_TRUE(take());
  EXPECT_EQ(got, ball);
  EXPECT_EQ(faults_->fired, 1);
  const auto error = thrown_by(take);
  EXPECT_EQ(error.code, ErrorCode::peer_lost) << error.text;
  EXPECT_EQ(error.ranks, std::vector<Rank>{1});
}

TEST_P(VerbsErrors, AnAddressThatIsUnreachableForAWhileIsTriedAgain) {
  start();
  faults_->reaching_rtr_error = ENETUNREACH;
  faults_->reaching_rtr_times = 3;
  use();
  EXPECT_EQ(faults_->fired, 3);
  EXPECT_EQ(ranks_[1]->traffic().messages_received, 1U);
}

TEST_P(VerbsErrors, AnUnreachableAddressIsReported) {
  start();
  faults_->reaching_rtr_error = ENETUNREACH;
  faults_->reaching_rtr_times = 1'000'000;
  const auto error = error_of_sending();
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("to RTR"), HasSubstr("Network is unreachable"), HasSubstr("ip route")));
  EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
}

TEST_P(VerbsErrors, ASignalOfWhatThereIsNotIsReported) {
  const std::array bad{verbs::Immediate{.channel = channels}, verbs::Immediate{.credit = true, .channel = 7},
                       verbs::Immediate{.part = 1}};
  for (const auto& signal : bad) {
    start();
    use();
    faults_->immediate = signal.pack();
    std::byte ball{1};
    ranks_[1]->sender(0, 0).try_send(&ball, 1, 1, false);
    const auto error = thrown_by(
        [&] { eventually(ranks_, [&] { return ranks_[0]->receiver(1, 0).try_receive(&ball, 1, 1); }); });
    EXPECT_THAT(error.text, HasSubstr("a signal of a channel or device that there is not"));
    EXPECT_EQ(error.ranks, std::vector<Rank>{1});
  }
  EXPECT_EQ(faults_->fired, 3);
}

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsErrors, ::testing::Values(On::fake, On::devices),
                         [](const auto& on) { return on.param == On::fake ? "fake" : "devices"; });

// What only the fake fabric can show.

TEST(VerbsFakeErrors, FatalEventsFailEverybodyAndOthersNobody) {
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto ranks = verbs_ranks(2, same(fake));
  std::byte ball{};
  ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
  const auto poke = [&] {
    for (const Deadline deadline(std::chrono::milliseconds(50)); !deadline.passed();) {
      ranks[0]->progress();
      ranks[1]->progress();
      ranks[0]->receiver(1, 0).try_receive(&ball, 1, 1);
    }
  };
  for (const auto harmless :
       {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE, IBV_EVENT_COMM_EST}) {
    raise_event(*fake, "fake0", harmless);
    EXPECT_NO_THROW(poke());
  }
  // A look is a millisecond after the one before: one event each would take longer than that poking.
  for (int k = 0; k < 1000; ++k) raise_event(*fake, "fake0", IBV_EVENT_COMM_EST);
  raise_event(*fake, "fake0", IBV_EVENT_DEVICE_FATAL);
  const auto error = thrown_by(poke);
  EXPECT_THAT(error.text,
              AllOf(HasSubstr("fake0 port 1"), HasSubstr(::ibv_event_type_str(IBV_EVENT_DEVICE_FATAL))));
}

/// Rank 0 sends to two others, and looks at nobody else meanwhile.
class VerbsFakeEvents : public ::testing::Test {
 protected:
  void start(const VerbsOptionsOf& options_of) { ranks_ = verbs_ranks(3, same(fake_), options_of); }
  bool passes_to(Rank peer) {
    const Deadline deadline(std::chrono::seconds(20));
    std::byte ball{};
    ranks_[0]->sender(peer, 0).try_send(&ball, 1, 1, false);
    while (!ranks_[static_cast<std::size_t>(peer)]->receiver(0, 0).try_receive(&ball, 1, 1)) {
      if (deadline.passed()) return false;
      ranks_[0]->receiver(peer, 0).try_receive(&ball, 1, 1);
    }
    return true;
  }
  Error error_from(Rank peer) {
    std::byte ball{};
    try {
      for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();)
        ranks_[0]->receiver(peer, 0).try_receive(&ball, 1, 1);
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::timeout, "no error came"};
  }

  std::shared_ptr<verbs::Verbs> fake_ = fake_verbs(fabric_for(3, 2));
  Transports ranks_;
};

TEST_F(VerbsFakeEvents, OfAQueuePairFailItsLinkAlone) {
  start(one_fake_device);
  ASSERT_TRUE(passes_to(1));
  ASSERT_TRUE(passes_to(2));
  raise_pair_event(*fake_, 0, IBV_EVENT_QP_FATAL);
  const auto error = error_from(1);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("fake0 port 1 to rank 1"),
                                  HasSubstr(::ibv_event_type_str(IBV_EVENT_QP_FATAL))));
  EXPECT_EQ(error.ranks(), std::vector<Rank>{0}) << "whose device it is";
  EXPECT_TRUE(passes_to(2));
}

TEST_F(VerbsFakeEvents, OfADeviceFailTheLinksThatUseIt) {
  start([](Rank rank) { return rank == 2 ? fake_options(4, 1) : fake_options(rank, 2); });
  ASSERT_TRUE(passes_to(1));
  ASSERT_TRUE(passes_to(2));  // by the first device alone: rank 2 has one
  raise_event(*fake_, "fake1", IBV_EVENT_DEVICE_FATAL);
  EXPECT_THAT(error_from(1).what(), HasSubstr("fake1 port 1"));
  EXPECT_TRUE(passes_to(2));
}

TEST(VerbsFakeErrors, ACutCableIsNoticed) {
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto ranks = verbs_ranks(2, same(fake));
  std::vector<std::byte> data(1000);
  const auto poke = [&] {
    ranks[0]->sender(1, 0).try_send(data.data(), data.size(), 1, false);
    ranks[0]->sender(1, 0).flushed();
    ranks[0]->progress();
    ranks[1]->receiver(0, 0).try_receive(data.data(), data.size(), 1);
  };
  const Deadline connected(std::chrono::seconds(20));
  while (ranks[1]->traffic().messages_received < 10 && !connected.passed()) poke();
  cut_off(*fake, "fake1");
  EXPECT_THROW(for (int k = 0; k < 1000; ++k) poke(), Error);
}

// Rank 0 has sent to rank 1 and waits for rank 2, which would wait for rank 1.
TEST(VerbsFakeErrors, ALostMessageIsNoticedByWhoAwaitsSomebodyElse) {
  const auto fake = fake_verbs(fabric_for(3, 1));
  const auto ranks = verbs_ranks(3, same(fake));
  std::byte ball{};
  ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
  eventually(ranks, [&] { return ranks[1]->receiver(0, 0).try_receive(&ball, 1, 1); });
  cut_off(*fake, "fake1");
  ranks[0]->sender(1, 0).try_send(&ball, 1, 2, false);
  const auto error = thrown_by(
      [&] { eventually(ranks, [&] { return ranks[0]->receiver(2, 0).try_receive(&ball, 1, 1); }); });
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks, std::vector<Rank>{1}) << error.text;
}

TEST(VerbsFakeErrors, AQueuePairWhoseReceivesAreRefusedTakesNoRoom) {
  const auto fake = fake_verbs(fabric_for(1, 1, without_shared_receives()));
  const auto faults = std::make_shared<VerbsFaults>();
  FaultyVerbs faulty(fake, faults);
  const auto device = verbs::discover(faulty, "/nonexistent").at(0);
  const verbs::Port& port = device.ports.at(0);
  verbs::Rail rail(faulty, {device, port}, {port.gids.at(0), ""}, {}, 0, 1);
  faults->receive_error = ENOMEM;
  EXPECT_THROW(static_cast<void>(rail.make_pair(1)), Error);
  EXPECT_EQ(faults->fired, 1);
  EXPECT_EQ(counters_of(*fake).pairs, 0U);
  const auto pair = rail.make_pair(1);
  EXPECT_EQ(counters_of(*fake).pairs, 1U);
  rail.forget_pair(*pair);
}

// Rank 1 connects while rank 0 looks for a message of rank 2.
TEST(VerbsFakeErrors, AConnectionThatCannotBeUsedFailsItsLinkAlone) {
  const auto fake = fake_verbs(fabric_for(3, 1));
  const auto faults = std::make_shared<VerbsFaults>();
  const std::shared_ptr<verbs::Verbs> faulty = std::make_shared<FaultyVerbs>(fake, faults);
  const auto ranks = verbs_ranks(3, [&](Rank rank) { return rank == 0 ? faulty : fake; });
  const std::byte ball{1};
  std::byte got{};
  const Deadline deadline(std::chrono::seconds(20));
  faults->create_pair_error = ENOMEM;
  ranks[1]->sender(0, 0).try_send(&ball, 1, 1, false);
  while (faults->fired == 0 && !deadline.passed())
    EXPECT_NO_THROW(static_cast<void>(ranks[0]->receiver(2, 0).try_receive(&got, 1, 1)));
  ASSERT_EQ(faults->fired, 1);
  for (int k = 0; k < 2; ++k) {
    const auto error =
        thrown_by([&] { static_cast<void>(ranks[0]->receiver(1, 0).try_receive(&got, 1, 1)); });
    EXPECT_THAT(error.text, AllOf(HasSubstr("creating a queue pair"), HasSubstr("to rank 1")));
    EXPECT_EQ(error.ranks, std::vector<Rank>{0});
  }
  ranks[2]->sender(0, 0).try_send(&ball, 1, 1, false);
  bool taken = false;
  while (!taken && !deadline.passed()) {
    taken = ranks[0]->receiver(2, 0).try_receive(&got, 1, 1);
    ranks[2]->progress();
  }
  EXPECT_TRUE(taken);
}

TEST(VerbsFakeErrors, WhoLeavesSaysGoodbyeToPeersBehindOneThatFails) {
  const auto fake = fake_verbs(fabric_for(3, 1));
  const auto faults = std::make_shared<VerbsFaults>();
  const std::shared_ptr<verbs::Verbs> faulty = std::make_shared<FaultyVerbs>(fake, faults);
  auto ranks = verbs_ranks(3, [&](Rank rank) { return rank == 0 ? faulty : fake; });
  std::byte ball{1};
  const Deadline deadline(std::chrono::seconds(20));
  for (const Rank peer : {1, 2}) {
    ranks[0]->sender(peer, 0).try_send(&ball, 1, 1, false);
    ASSERT_TRUE(eventually(ranks, [&] {
      return ranks[static_cast<std::size_t>(peer)]->receiver(0, 0).try_receive(&ball, 1, 1);
    }));
  }
  faults->post_fails_in = 0;  // rank 0 asks whether all has arrived, first at rank 1
  ranks[0].reset();
  EXPECT_EQ(faults->fired, 1);
  const auto error = thrown_by([&] {
    while (!deadline.passed()) ranks[2]->receiver(0, 0).try_receive(&ball, 1, 1);
  });
  EXPECT_THAT(error.text, HasSubstr("it said goodbye"));
  EXPECT_EQ(error.ranks, std::vector<Rank>{0});
}

}  // namespace

}  // namespace tutti::transport::testing
