// What the verbs transport does when devices fail: each fault is planted, shown to have fired, and must come
// out as an error that names it. On the fake fabric, and on real devices where there are some.
#include <gmock/gmock.h>

#include <array>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "verbs_devices.hpp"
#include "verbs_faulty.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

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
  void progress() {
    for (auto& rank : ranks_) rank->progress();
  }
  /// One message each way.
  void use() {
    std::byte ball{1};
    for (const Rank from : {0, 1}) {
      ranks_[static_cast<std::size_t>(from)]->sender(1 - from, 0).try_send(&ball, 1, 1, false);
      until([&] {
        return ranks_[static_cast<std::size_t>(1 - from)]->receiver(from, 0).try_receive(&ball, 1, 1);
      });
    }
  }
  template <class Attempt>
  void until(Attempt attempt) {
    for (const Deadline deadline(std::chrono::seconds(20)); !attempt() && !deadline.passed();) progress();
  }
  /// What rank 0 throws when it sends on, and rank 1 receives.
  Error error_of_sending(std::size_t bytes = 5000) {
    std::vector<std::byte> data(bytes);
    try {
      for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
        ranks_[0]->sender(1, 0).try_send(data.data(), bytes, 2, false);
        ranks_[0]->sender(1, 0).flushed();
        ranks_[1]->receiver(0, 0).try_receive(data.data(), bytes, 2);
        progress();
      }
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
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
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
  EXPECT_THAT(error_of_sending().what(), AllOf(HasSubstr("creating a queue pair"), HasSubstr("ulimit -l")));
  EXPECT_EQ(faults_->fired, 1);
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

TEST_P(VerbsErrors, AReceiveThatIsRefusedNamesThePeerAndLosesNothing) {
  start();
  use();
  faults_->receive_error = ENOMEM;
  const std::byte ball{2};
  ASSERT_TRUE(ranks_[1]->sender(0, 0).try_send(&ball, 1, 3, false));
  try {
    until([] { return false; });
    ADD_FAILURE() << "no error came";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("posting a receive"), HasSubstr("to rank 1")));
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
  }
  std::byte got{};
  EXPECT_TRUE(ranks_[0]->receiver(1, 0).try_receive(&got, 1, 3));
  EXPECT_EQ(got, ball);
}

// Devices refuse posts to a queue pair whose peer has gone, here before this rank has looked that it has.

TEST_P(VerbsErrors, APostThatIsRefusedBecauseThePeerHasLeftSaysThat) {
  start();
  use();
  ranks_[1].reset();
  faults_->post_fails_in = 0;
  const std::byte ball{1};
  try {
    for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
      ranks_[0]->sender(1, 0).try_send(&ball, 1, 1, false);
      ranks_[0]->progress();
    }
    ADD_FAILURE() << "no error came";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost) << error.what();
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
  }
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
  try {
    take();
    ADD_FAILURE() << "no error came";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost) << error.what();
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
  }
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
  EXPECT_THAT(error_of_sending().what(),
              AllOf(HasSubstr("to RTR"), HasSubstr("Network is unreachable"), HasSubstr("ip route")));
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
    try {
      until([&] { return ranks_[0]->receiver(1, 0).try_receive(&ball, 1, 1); });
      ADD_FAILURE() << "it was not noticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a signal of a channel or device that there is not"));
      EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
    }
  }
  EXPECT_EQ(faults_->fired, 3);
}

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsErrors, ::testing::Values(On::fake, On::devices),
                         [](const auto& on) { return on.param == On::fake ? "fake" : "devices"; });

// What only the fake fabric can show.

TEST(VerbsFakeErrors, FatalEventsFailEverybodyAndOthersNobody) {
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto ranks = verbs_ranks(2, same(fake), [](Rank rank) { return fake_options(rank, 1); });
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
  raise_event(*fake, "fake0", IBV_EVENT_DEVICE_FATAL);
  try {
    poke();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("fake0 port 1"), HasSubstr(::ibv_event_type_str(IBV_EVENT_DEVICE_FATAL))));
  }
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
  start([](Rank rank) { return fake_options(rank, 1); });
  ASSERT_TRUE(passes_to(1));
  ASSERT_TRUE(passes_to(2));
  raise_pair_event(*fake_, 0, IBV_EVENT_QP_FATAL);
  const auto error = error_from(1);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("fake0 port 1 to rank 1"),
                                  HasSubstr(::ibv_event_type_str(IBV_EVENT_QP_FATAL))));
  EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
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
  const auto ranks = verbs_ranks(2, same(fake), [](Rank rank) { return fake_options(rank, 1); });
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
  const auto ranks = verbs_ranks(3, same(fake), [](Rank rank) { return fake_options(rank, 1); });
  std::byte ball{};
  const auto until = [&](const std::function<bool()>& done) {
    for (const Deadline deadline(std::chrono::seconds(20)); !done() && !deadline.passed();)
      for (const auto& rank : ranks) rank->progress();
  };
  ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
  until([&] { return ranks[1]->receiver(0, 0).try_receive(&ball, 1, 1); });
  cut_off(*fake, "fake1");
  ranks[0]->sender(1, 0).try_send(&ball, 1, 2, false);
  try {
    until([&] { return ranks[0]->receiver(2, 0).try_receive(&ball, 1, 1); });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1}) << error.what();
  }
}

TEST(VerbsFakeErrors, WhoLeavesSaysGoodbyeToPeersBehindOneThatFails) {
  const auto fake = fake_verbs(fabric_for(3, 1));
  const auto faults = std::make_shared<VerbsFaults>();
  const std::shared_ptr<verbs::Verbs> faulty = std::make_shared<FaultyVerbs>(fake, faults);
  auto ranks = verbs_ranks(
      3, [&](Rank rank) { return rank == 0 ? faulty : fake; },
      [](Rank rank) { return fake_options(rank, 1); });
  std::byte ball{1};
  const Deadline deadline(std::chrono::seconds(20));
  for (const Rank peer : {1, 2}) {
    ranks[0]->sender(peer, 0).try_send(&ball, 1, 1, false);
    while (!ranks[static_cast<std::size_t>(peer)]->receiver(0, 0).try_receive(&ball, 1, 1)) {
      ASSERT_FALSE(deadline.passed());
      for (const auto& rank : ranks) rank->progress();
    }
  }
  faults->post_fails_in = 0;  // rank 0 asks whether all has arrived, first at rank 1
  ranks[0].reset();
  EXPECT_EQ(faults->fired, 1);
  try {
    while (!deadline.passed()) ranks[2]->receiver(0, 0).try_receive(&ball, 1, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it said goodbye"));
    EXPECT_EQ(error.ranks(), std::vector<Rank>{0});
  }
}

TEST(VerbsFake, NoReceiverIsEverNotReady) {
  const auto fake = fake_verbs(fabric_for(4, 2));
  const Subject subject{.name = "counted", .make = [&](int ranks) {
                          return verbs_ranks(ranks, same(fake),
                                             [](Rank rank) { return fake_options(rank, 2); });
                        }};
  check_named("three_random").run(subject);
  check_named("flood_all_channels").run(subject);
  const auto counted = counters_of(*fake);
  EXPECT_EQ(counted.receiver_not_ready, 0U);
  EXPECT_LT(counted.signalled, counted.requests / 4);
  EXPECT_EQ(counted.pairs, 0U);
  EXPECT_EQ(counted.registered, 0U);
}

TEST(VerbsFake, AMessageIsOneDoorbell) {
  FakeDevice device;
  device.longest_message = 20'000;  // a message is seven requests
  const auto fake = fake_verbs(fabric_for(2, 1, device));
  const auto ranks = verbs_ranks(2, same(fake), [](Rank rank) { return fake_options(rank, 1); });
  std::vector<std::byte> data(ranks[0]->max_message_bytes());
  const auto pass = [&](Rank from) {
    ASSERT_TRUE(ranks[static_cast<std::size_t>(from)]
                    ->sender(1 - from, 0)
                    .try_send(data.data(), data.size(), 1, false));
    Receiver& receiver = ranks[static_cast<std::size_t>(1 - from)]->receiver(from, 0);
    const Deadline deadline(std::chrono::seconds(20));
    while (!receiver.try_receive(data.data(), data.size(), 1) && !deadline.passed()) {
      ranks[0]->progress();
      ranks[1]->progress();
    }
  };
  using Used = std::pair<std::uint64_t, std::uint64_t>;  // doorbells, requests
  const auto used_by = [&](const auto& passes) {
    const auto before = counters_of(*fake);
    passes();
    const auto after = counters_of(*fake);
    return Used(after.doorbells - before.doorbells, after.requests - before.requests);
  };
  pass(0), pass(1);
  // One way, credits return by themselves, four at a time.
  const auto one_way = [&] {
    for (int k = 0; k < 8; ++k) pass(0);
  };
  EXPECT_EQ(used_by(one_way), Used(8 + 2, 8 * 7 + 2));
  // Both ways, they come along with messages.
  const auto both_ways = [&] {
    for (int k = 0; k < 8; ++k) pass(1), pass(0);
  };
  EXPECT_EQ(used_by(both_ways), Used(16, 16 * 7));
}

TEST(VerbsFake, RanksWithoutDevicesAreNotReachedAndSaySo) {
  const auto with = fake_verbs(fake_devices(1));
  const auto without = fake_verbs({});
  const auto ranks = verbs_ranks(
      2, [&](Rank rank) { return rank == 0 ? with : without; }, [](Rank) { return verbs::VerbsOptions{}; });
  EXPECT_FALSE(ranks[0]->reaches(1));
  EXPECT_FALSE(ranks[1]->reaches(0));
  EXPECT_EQ(ranks[0]->explain(1), "verbs: rank 1 has no usable RDMA device");
  EXPECT_EQ(ranks[1]->explain(0), "verbs: no RDMA device");
}

TEST(VerbsFake, ADeviceThatCannotBeOpenedIsNamed) {
  auto faults = std::make_shared<VerbsFaults>();
  const auto faulty = std::make_shared<FaultyVerbs>(fake_verbs(fake_devices(1)), faults);
  const std::string why =
      "cannot be opened: Permission denied; the process may not use /dev/infiniband; in containers "
      "--device=/dev/infiniband";
  faults->open_error = EACCES;
  const auto rank = verbs_ranks(1, same(faulty), [](Rank) { return verbs::VerbsOptions{}; });
  EXPECT_EQ(rank[0]->traffic().queue_pairs, 0U);
  faults->open_error = EACCES;
  const auto devices = verbs::discover(*faulty);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(verbs::describe(devices[0]), "fake0 " + why);
  std::string why_none;
  EXPECT_TRUE(verbs::choose_ports(devices, {}, 0, why_none).empty());
  EXPECT_EQ(why_none, "no active port on fake0 (which " + why + ")");
  faults->open_error = EACCES;
  try {
    static_cast<void>(verbs_ranks(1, same(faulty), [](Rank) { return fake_options(0, 1); }));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), ::testing::EndsWith("RDMA device fake0 " + why));
  }
  EXPECT_EQ(faults->fired, 3);
}

// One was built without RDMA, or told to do without: what they say to each other has other meanings.
TEST(VerbsFake, RanksOfOtherTransportsAreNamed) {
  const auto groups = local_groups(2);
  const auto listeners = listeners_at("127.0.0.1", 2);
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto expect_mismatch = [](Rank other, const auto& make) {
    try {
      make();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.ranks(), std::vector<Rank>{other});
    }
  };
  const std::jthread zero(
      [&] { expect_mismatch(1, [&] { tcp::TcpTransport(groups[0], listeners[0], tcp_secret); }); });
  expect_mismatch(
      0, [&] { verbs::VerbsTransport(groups[1], listeners[1], tcp_secret, fake_options(1, 1), fake); });
}

TEST(VerbsFake, ExplainsThePath) {
  const auto ranks = fake_ranks(2);
  EXPECT_EQ(ranks[0]->explain(1),
            "verbs via fake0 port 1, RoCE 10.9.0.1 -> 10.9.0.2, MTU 4096, GID 1 because it is the first RoCE "
            "v2 IPv4 "
            "address that works");
}

TEST(VerbsFake, QueuePairsAreMadeOnFirstUse) {
  const auto fake = fake_verbs(fabric_for(4, 1));
  const auto ranks = verbs_ranks(4, same(fake), [](Rank rank) { return fake_options(rank, 1); });
  EXPECT_EQ(counters_of(*fake).pairs, 0U);
  std::byte ball{};
  ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
  const Deadline deadline(std::chrono::seconds(20));
  while (!ranks[1]->receiver(0, 0).try_receive(&ball, 1, 1) && !deadline.passed()) {
    ranks[0]->progress();
    ranks[1]->progress();
  }
  ranks[1]->sender(0, 2).try_send(&ball, 1, 1, false);
  while (!ranks[0]->receiver(1, 2).try_receive(&ball, 1, 1) && !deadline.passed()) {
    ranks[0]->progress();
    ranks[1]->progress();
  }
  EXPECT_EQ(counters_of(*fake).pairs, 2U);  // one for both directions and all channels, at each end
}

}  // namespace

}  // namespace tutti::transport::testing
