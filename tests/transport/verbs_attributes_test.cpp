// What the verbs transport asks of its devices: the attributes of queue pairs, and who may reach which
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "rig.hpp"
#include "verbs_faulty.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

/// Keeps what was asked for.
class RecordingVerbs final : public ForwardingVerbs {
 public:
  using ForwardingVerbs::ForwardingVerbs;
  struct Registered {
    const std::byte* begin;
    std::size_t bytes;
    int access;
  };
  ibv_mr* reg_mr(ibv_pd* domain, void* at, std::size_t bytes, int access) override {
    const std::scoped_lock lock(mutex_);
    regions.push_back({static_cast<const std::byte*>(at), bytes, access});
    return to_->reg_mr(domain, at, bytes, access);
  }
  int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) override {
    const std::scoped_lock lock(mutex_);
    steps[pair->qp_num][attributes->qp_state] = *attributes;
    return to_->modify_qp(pair, attributes, mask);
  }

  std::vector<Registered> regions;
  std::map<std::uint32_t, std::map<ibv_qp_state, ibv_qp_attr>> steps;  ///< by queue pair

 private:
  std::mutex mutex_;
};

/// Takes less inline than is asked for.
class LittleInline final : public ForwardingVerbs {
 public:
  static constexpr std::uint32_t most = 96;
  LittleInline(std::shared_ptr<verbs::Verbs> to, bool refuses)
      : ForwardingVerbs(std::move(to)), refuses_(refuses) {}
  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) override {
    // As libbnxt_re does it: errno is that of whatever failed before.
    if (refuses_ && attributes->cap.max_inline_data > most) return nullptr;
    ibv_qp* const made = to_->create_qp(domain, attributes);
    attributes->cap.max_inline_data = std::min(attributes->cap.max_inline_data, most);  // as hns does it
    return made;
  }

 private:
  bool refuses_;
};

class VerbsAttributes : public ::testing::Test {
 protected:
  static constexpr int ranks = 3;
  /// A message from each rank to each other one.
  void connect_all(verbs::VerbsOptions options = {}) {
    options.prove_gid = false;  // its queue pair has attributes of its own
    transports_ = verbs_ranks(ranks, same(verbs_), [&](Rank rank) { return fake_options(rank, 1, options); });
    std::byte word{};
    for (Rank from = 0; from < ranks; ++from)
      for (Rank to = 0; to < ranks; ++to)
        if (from != to) {
          ASSERT_TRUE(
              eventually(transports_, [&] { return at(from).sender(to, 0).try_send(&word, 1, 1, false); }));
          ASSERT_TRUE(
              eventually(transports_, [&] { return at(to).receiver(from, 0).try_receive(&word, 1, 1); }));
        }
  }
  Transport& at(Rank rank) { return *transports_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<RecordingVerbs> verbs_ = std::make_shared<RecordingVerbs>(fake_verbs(fabric_for(ranks, 1)));
  Transports transports_;
};

TEST_F(VerbsAttributes, AreThoseOfTheOptions) {
  verbs::VerbsOptions options;
  options.port = 1;
  options.gid_index = 1;
  options.pkey_index = 2;
  options.service_level = 3;
  options.traffic_class = 104;
  options.mtu = 1024;
  options.timeout = 14;
  options.retries = 5;
  connect_all(options);
  EXPECT_EQ(verbs_->steps.size(), 2U * (ranks * (ranks - 1) / 2)) << "two ends a pair of ranks";
  for (auto& [number, steps] : verbs_->steps) {
    EXPECT_EQ(steps[IBV_QPS_INIT].port_num, 1);
    EXPECT_EQ(steps[IBV_QPS_INIT].pkey_index, 2);
    EXPECT_EQ(steps[IBV_QPS_INIT].qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
    const ibv_qp_attr& ready = steps[IBV_QPS_RTR];
    EXPECT_EQ(ready.path_mtu, IBV_MTU_1024);
    EXPECT_EQ(ready.ah_attr.sl, 3);
    EXPECT_EQ(ready.ah_attr.grh.traffic_class, 104);
    EXPECT_EQ(ready.ah_attr.grh.sgid_index, 1);
    EXPECT_EQ(steps[IBV_QPS_RTS].timeout, 14);
    EXPECT_EQ(steps[IBV_QPS_RTS].retry_cnt, 5);
    EXPECT_LT(steps[IBV_QPS_RTS].rnr_retry, 7) << "7 is for ever";
  }
}

// As virtual ports of an adapter, which share a LID.
TEST_F(VerbsAttributes, PortsThatNeedAGlobalRouteHaveOneBothWays) {
  FakeDevice like;
  like.link_layer = IBV_LINK_LAYER_INFINIBAND;
  auto devices = fabric_for(ranks, 1, like);
  devices[0].needs_global_route = true;
  verbs_ = std::make_shared<RecordingVerbs>(fake_verbs(devices));
  connect_all();
  int global = 0;
  for (auto& [number, steps] : verbs_->steps) global += steps[IBV_QPS_RTR].ah_attr.is_global;
  EXPECT_EQ(verbs_->steps.size(), 6U);
  EXPECT_EQ(global, 4) << "both ends of those of rank 0";
}

TEST_F(VerbsAttributes, PacketNumbersAreRandomAndBothEndsKnowThem) {
  connect_all();
  std::set<std::uint32_t> firsts;
  for (auto& [number, steps] : verbs_->steps) {
    auto& peer = verbs_->steps[steps[IBV_QPS_RTR].dest_qp_num];
    EXPECT_EQ(steps[IBV_QPS_RTR].rq_psn, peer[IBV_QPS_RTS].sq_psn);
    EXPECT_LT(steps[IBV_QPS_RTS].sq_psn, 1U << 24U);
    firsts.insert(steps[IBV_QPS_RTS].sq_psn);
  }
  EXPECT_GT(firsts.size(), 1U) << "six alike by chance: once in 2^120";
}

TEST_F(VerbsAttributes, PeersMayWriteIntoSlotsAndReachNothingElse) {
  connect_all();
  std::vector<std::byte> mine(1 << 20);
  const auto registration = at(0).register_memory(mine.data(), mine.size());
  bool seen = false;
  for (const auto& [begin, bytes, access] : verbs_->regions) {
    EXPECT_EQ(access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), 0)
        << "no reads, no atomics, no relaxed order";
    if (begin + bytes <= mine.data() || mine.data() + mine.size() <= begin) continue;
    seen = true;
    EXPECT_EQ(access & IBV_ACCESS_REMOTE_WRITE, 0) << "memory of the caller";
  }
  EXPECT_TRUE(seen);
  EXPECT_TRUE(std::ranges::any_of(
      verbs_->regions, [](const auto& region) { return (region.access & IBV_ACCESS_REMOTE_WRITE) != 0; }));
}

TEST(VerbsInline, IsWhatTheDeviceGrants) {
  for (const auto& [refuses, granted] : {std::pair{true, 64}, {false, 96}}) {
    LittleInline table(fake_verbs(fabric_for(1, 1)), refuses);
    const auto device = verbs::discover(table, "/nonexistent").at(0);
    const verbs::Port& port = device.ports.at(0);
    verbs::Rail rail(table, {device, port}, {port.gids.at(0), ""}, {}, 0, 1);
    errno = EAGAIN;
    const auto pair = rail.make_pair(1);
    EXPECT_EQ(pair->max_inline(), granted);
    rail.forget_pair(*pair);
  }
}

}  // namespace

}  // namespace tutti::transport::testing
