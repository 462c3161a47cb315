// What the verbs transport posts, whom it reaches and what it says of that, on the fake fabric.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "thrown.hpp"
#include "transport/why_not.hpp"
#include "verbs_faulty.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;

/// When told so, a completion of a send says that it was flushed, as a fatal event of its queue pair comes.
class FlushingVerbs final : public ForwardingVerbs {
 public:
  using ForwardingVerbs::ForwardingVerbs;
  int poll_cq(ibv_cq* queue, int count, ibv_wc* completions) override {
    const int got = to_->poll_cq(queue, count, completions);
    for (int k = 0; k < got; ++k) {
      if (verbs::Rail::is_receive(completions[k]) || !due.exchange(false)) continue;
      completions[k].status = IBV_WC_WR_FLUSH_ERR;
      raise_pair_event(*to_, 0, IBV_EVENT_QP_FATAL);
    }
    return got;
  }
  std::atomic<bool> due{false};
};

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
  const auto ranks = verbs_ranks(2, same(fake));
  std::vector<std::byte> data(ranks[0]->max_message_bytes());
  const auto pass = [&](Rank from) {
    ASSERT_TRUE(ranks[static_cast<std::size_t>(from)]
                    ->sender(1 - from, 0)
                    .try_send(data.data(), data.size(), 1, false));
    Receiver& receiver = ranks[static_cast<std::size_t>(1 - from)]->receiver(from, 0);
    eventually(ranks, [&] { return receiver.try_receive(data.data(), data.size(), 1); });
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

TEST(VerbsFake, EachRankThatIsNotReachedHasAReasonOfItsOwn) {
  const auto some = fake_verbs(fake_devices(1)), none = fake_verbs({});
  const auto ranks = verbs_ranks(
      3, [&](Rank rank) { return rank == 1 ? some : none; }, [](Rank) { return verbs::VerbsOptions{}; });
  const WhyNot why(*ranks[1], 1, 3), same(*ranks[2], 2, 3);
  EXPECT_EQ(why.to(0), "verbs: rank 0 has no usable RDMA device");
  EXPECT_EQ(why.to(2), "verbs: rank 2 has no usable RDMA device");
  for (const Rank peer : {0, 1}) EXPECT_EQ(same.to(peer), "verbs: no RDMA device");
}

TEST(VerbsFake, LimitedMembersOfAPartitionReachFullOnesAndNotEachOther) {
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  auto devices = fabric_for(4, 1, device);
  devices[0].partitions = devices[2].partitions = {0x7fff};
  devices[3].partitions = {0x8001};
  const auto ranks = verbs_ranks(4, same(fake_verbs(devices)));
  EXPECT_TRUE(ranks[1]->reaches(0));
  EXPECT_FALSE(ranks[0]->reaches(2));
  EXPECT_EQ(ranks[0]->explain(2),
            "verbs: fake0 here and the device of rank 2 are in different partitions, or both limited members "
            "of one (their keys are 0x7fff and 0x7fff): TUTTI_VERBS_PKEY_INDEX chooses others");
  EXPECT_FALSE(ranks[1]->reaches(3));
  const std::byte ball{3};
  std::byte got{};
  ASSERT_TRUE(ranks[0]->reaches(1));
  ASSERT_TRUE(ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false));
  eventually(ranks, [&] { return ranks[1]->receiver(0, 0).try_receive(&got, 1, 1); });
  EXPECT_EQ(got, ball);
}

TEST(VerbsFake, APartitionThatThereIsNotIsRefused) {
  auto devices = fabric_for(2, 1);
  devices[0].partitions = devices[1].partitions = {0xffff, 0};
  for (const int index : {1, 2}) {
    verbs::VerbsOptions options;
    options.pkey_index = index;
    const auto error = thrown_by([&] {
      static_cast<void>(verbs_ranks(2, same(fake_verbs(devices)),
                                    [&](Rank rank) { return fake_options(rank, 1, options); }));
    });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_THAT(error.text,
                ::testing::EndsWith("verbs, fake0 port 1: no partition has index " + std::to_string(index) +
                                    " (TUTTI_VERBS_PKEY_INDEX); those that there are: "
                                    "/sys/class/infiniband/fake0/ports/1/pkeys"));
  }
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
  EXPECT_EQ(devices[0].unusable, why);
  std::string why_none;
  EXPECT_TRUE(verbs::choose_ports(devices, {}, 0, why_none).empty());
  EXPECT_EQ(why_none, "no active port on fake0 (which " + why + ")");
  faults->open_error = EACCES;
  const auto error = thrown_by([&] { static_cast<void>(verbs_ranks(1, same(faulty))); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.text, ::testing::EndsWith("RDMA device fake0 " + why));
  EXPECT_EQ(faults->fired, 3);
}

TEST(VerbsFake, ADeviceThatCannotBeQueriedSaysWhy) {
  auto faults = std::make_shared<VerbsFaults>();
  FaultyVerbs faulty(fake_verbs(fake_devices(1)), faults);
  for (const int result : {EINVAL, -EINVAL}) {  // both are in use
    faults->query_result = result;
    EXPECT_EQ(verbs::discover(faulty).at(0).unusable, "cannot be queried: Invalid argument");
  }
}

// One was built without RDMA, or told to do without: what they say to each other has other meanings.
TEST(VerbsFake, RanksOfOtherTransportsAreNamed) {
  const auto groups = local_groups(2);
  const auto listeners = listeners_at("127.0.0.1", 2);
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto expect_mismatch = [](Rank other, const auto& make) {
    const auto error = thrown_by(make);
    EXPECT_EQ(error.code, ErrorCode::mismatch);
    EXPECT_EQ(error.ranks, std::vector<Rank>{other});
  };
  const std::jthread zero(
      [&] { expect_mismatch(1, [&] { tcp::TcpTransport(groups[0], listeners[0], tcp_secret); }); });
  expect_mismatch(
      0, [&] { verbs::VerbsTransport(groups[1], listeners[1], tcp_secret, fake_options(1, 1), fake); });
}

TEST(VerbsFake, ExplainsThePath) {
  for (const int mtu : {0, 1024}) {
    const auto ranks = verbs_ranks(2, same(fake_verbs(fabric_for(2, 1))), [&](Rank rank) {
      verbs::VerbsOptions options;
      if (rank == 1) options.mtu = mtu;  // a path takes packets that both ends take
      return fake_options(rank, 1, options);
    });
    EXPECT_EQ(ranks[0]->explain(1), "verbs via fake0 port 1, RoCE 10.9.0.1 -> 10.9.0.2, MTU " +
                                        std::to_string(mtu == 0 ? 4096 : mtu) +
                                        ", GID 1 because it is the first RoCE v2 IPv4 address that works");
  }
}

TEST(VerbsFake, QueuePairsAreMadeOnFirstUse) {
  const auto fake = fake_verbs(fabric_for(4, 1));
  const auto ranks = verbs_ranks(4, same(fake));
  EXPECT_EQ(counters_of(*fake).pairs, 0U);
  std::byte ball{};
  ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
  eventually(ranks, [&] { return ranks[1]->receiver(0, 0).try_receive(&ball, 1, 1); });
  ranks[1]->sender(0, 2).try_send(&ball, 1, 1, false);
  eventually(ranks, [&] { return ranks[0]->receiver(1, 2).try_receive(&ball, 1, 1); });
  EXPECT_EQ(counters_of(*fake).pairs, 2U);  // one for both directions and all channels, at each end
}

TEST(VerbsFake, WhatProgressHasTakenEndsTheNextWait) {
  const auto ranks = fake_ranks(2);
  std::byte ball{};
  Receiver& receiver = ranks[1]->receiver(0, 0);
  const auto send = [&](Tag tag) { return ranks[0]->sender(1, 0).try_send(&ball, 1, tag, false); };
  ASSERT_TRUE(send(1));
  ASSERT_TRUE(eventually(ranks, [&] { return receiver.try_receive(&ball, 1, 1); }));
  std::vector<pollfd> waits;
  ASSERT_TRUE(eventually(ranks, [&] {
    ranks[1]->prepare_wait();
    return ranks[1]->add_waits(waits);
  }));
  EXPECT_FALSE(receiver.try_receive(&ball, 1, 2));
  ranks[1]->prepare_wait();
  ASSERT_TRUE(send(2));
  ranks[1]->progress();
  EXPECT_FALSE(ranks[1]->add_waits(waits)) << "its completion, which would, was taken";
  EXPECT_TRUE(receiver.try_receive(&ball, 1, 2));
  ranks[1]->prepare_wait();
  EXPECT_TRUE(ranks[1]->add_waits(waits));
}

TEST(VerbsFake, TheEventOfAQueuePairSaysWhyARequestWasFlushed) {
  const auto fake = fake_verbs(fabric_for(2, 1));
  const auto flushing = std::make_shared<FlushingVerbs>(fake);
  const auto ranks =
      verbs_ranks(2, [&](Rank rank) -> std::shared_ptr<verbs::Verbs> { return rank == 0 ? flushing : fake; });
  std::byte ball{1};
  const auto error = thrown_by([&] {
    for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
      ranks[0]->sender(1, 0).try_send(&ball, 1, 1, false);
      ranks[0]->progress();
      flushing->due = ranks[1]->receiver(0, 0).try_receive(&ball, 1, 1) || flushing->due;
    }
  });
  EXPECT_THAT(error.text, ::testing::HasSubstr(::ibv_event_type_str(IBV_EVENT_QP_FATAL)));
  EXPECT_EQ(error.ranks, std::vector<Rank>{0}) << "whose device it is";
}

// Its descriptors report an error for good: whoever has nothing to do with it sleeps all the same.
TEST(VerbsFake, ADeviceThatIsTakenAwayFailsWhoUsesItAndWakesNobodyElse) {
  const auto fake = fake_verbs(fabric_for(3, 1));
  const auto ranks = verbs_ranks(3, same(fake));
  const auto error_of_sending = [&](Rank from, Rank to) {
    const std::byte ball{1};
    try {
      for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
        ranks[static_cast<std::size_t>(from)]->sender(to, 0).try_send(&ball, 1, 1, false);
        ranks[static_cast<std::size_t>(from)]->wait(std::chrono::milliseconds(1));
        ranks[static_cast<std::size_t>(from)]->progress();
        ranks[2]->progress();
      }
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::timeout, "no error came");
  };
  const auto is_the_loss = [](const Error& error, Rank whose) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(::ibv_event_type_str(IBV_EVENT_DEVICE_FATAL)));
    EXPECT_EQ(error.ranks(), std::vector<Rank>{whose}) << "whose device it is";
  };
  // One that has no link yet, and makes one later.
  take_away(*fake, "fake0");
  constexpr std::chrono::milliseconds nap{20};
  ranks[0]->wait(nap);  // notices
  const auto before = Clock::now();
  ranks[0]->wait(nap);
  EXPECT_GE(Clock::now() - before, nap);
  EXPECT_NO_THROW(ranks[0]->progress());
  is_the_loss(error_of_sending(0, 1), 0);
  // One that has one.
  std::byte ball{1};
  ranks[1]->sender(2, 0).try_send(&ball, 1, 1, false);
  const Deadline deadline(std::chrono::seconds(20));
  while (!ranks[2]->receiver(1, 0).try_receive(&ball, 1, 1) && !deadline.passed()) ranks[1]->progress();
  take_away(*fake, "fake1");
  is_the_loss(error_of_sending(1, 2), 1);
}

}  // namespace

}  // namespace tutti::transport::testing
