// Notifications over RDMA: as immediates while the target has receives, as totals otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <map>
#include <numeric>
#include <utility>

#include "bootstrap/ranks.hpp"
#ifdef TUTTI_HAVE_VERBS
#include "transport/remote_memory.hpp"
#include "transport/verbs_faulty.hpp"
#include "transport/verbs_ranks.hpp"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t numbers = 4;
constexpr std::size_t bytes = 1 << 16;
constexpr int receives = 64;  // posted for each source

/// A rank's memory, what it was told of it, and its ways to the others. Words and immediates are counted
/// apart.
struct Side {
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(bytes);
  std::vector<std::uint64_t> counters;
  std::map<std::pair<std::uint32_t, Rank>, std::uint64_t> signalled;
  std::unique_ptr<RemoteAccess> access;
  std::map<Rank, std::unique_ptr<RemoteMemory>> to;
};

class VerbsSignals : public ::testing::Test {
 protected:
  void open(int ranks, const FakeDevice& like = {}, const verbs::VerbsOptions& options = {}) {
    fake_ = fake_verbs(fabric_for(ranks, 1, like));
    transports_ = verbs_ranks(ranks, same(std::make_shared<FaultyVerbs>(fake_, faults_)),
                              [&](Rank rank) { return fake_options(rank, 1, options); });
    sides_.resize(static_cast<std::size_t>(ranks));
    for (Rank rank = 0; rank < ranks; ++rank) {
      Side& side = at(rank);
      side.counters.resize(numbers * sides_.size());
      side.access = transports_[static_cast<std::size_t>(rank)]->expose(
          {.memory = std::as_writable_bytes(std::span(side.memory)),
           .counters = std::as_writable_bytes(std::span(side.counters)),
           .signalled =
               [&side](std::uint32_t id, Rank from) {
                 ++side.signalled[{id, from}];
               },
           .rank = rank,
           .size = ranks});
    }
    for (Rank from = 0; from < ranks; ++from)
      for (Rank to = 0; to < ranks; ++to)
        if (from != to)
          at(from).to[to] = at(from).access->reach(
              to, [this, from, to](auto question) { return at(to).access->answer(from, question); });
  }
  Side& at(Rank rank) { return sides_[static_cast<std::size_t>(rank)]; }
  RemoteMemory& way(Rank from, Rank to) { return *at(from).to[to]; }
  void put_and_notify(Rank from, Rank to, std::size_t size, std::uint32_t id) {
    const tutti::Block block{.local = 0, .remote = bytes / 2, .bytes = size};
    way(from, to).put({&block, 1});
    way(from, to).notify(id);
    way(from, to).submit();
    while (way(from, to).done() < way(from, to).started()) {
    }
  }
  std::uint64_t word(Rank rank, std::uint32_t id, Rank source) {
    return at(rank).counters[id * sides_.size() + static_cast<std::size_t>(source)];
  }
  std::uint64_t signalled(Rank rank, std::uint32_t id, Rank source) {
    at(rank).access->progress();
    while (at(rank).signalled[{id, source}] < 1'000'000) {  // completions are taken some at a time
      const auto before = at(rank).signalled;
      at(rank).access->progress();
      if (before == at(rank).signalled) break;
    }
    return at(rank).signalled[{id, source}];
  }
  std::uint64_t requests_of(const std::function<void()>& body) {
    const auto before = counters_of(*fake_).requests;
    body();
    return counters_of(*fake_).requests - before;
  }
  void TearDown() override { EXPECT_EQ(counters_of(*fake_).receiver_not_ready, 0U); }

  std::shared_ptr<verbs::Verbs> fake_;
  std::shared_ptr<VerbsFaults> faults_ = std::make_shared<VerbsFaults>();
  Transports transports_;
  std::vector<Side> sides_;
};

TEST_F(VerbsSignals, APutAndItsNotificationAreOneRequest) {
  open(2);
  EXPECT_EQ(requests_of([&] { put_and_notify(0, 1, 8, 3); }), 1U);
  EXPECT_EQ(signalled(1, 3, 0), 1U);
  EXPECT_EQ(word(1, 3, 0), 0U);
  // A batch: the last of its blocks. Nothing to put: an empty one.
  std::vector<tutti::Block> blocks(5, {.remote = 100, .bytes = 10});
  EXPECT_EQ(requests_of([&] { way(0, 1).put(blocks), way(0, 1).notify(1), way(0, 1).submit(); }), 5U);
  EXPECT_EQ(requests_of([&] { way(0, 1).notify(1), way(0, 1).submit(); }), 1U);
  EXPECT_EQ(signalled(1, 1, 0), 2U);
}

TEST_F(VerbsSignals, AnAddressThatIsUnreachableForAWhileIsTriedAgain) {
  open(2);
  faults_->reaching_rtr_error = ENETUNREACH;
  faults_->reaching_rtr_times = 3;  // some of who asks, some of who answers
  put_and_notify(0, 1, 8, 3);
  EXPECT_EQ(faults_->fired, 3);
  EXPECT_EQ(signalled(1, 3, 0), 1U);
}

TEST_F(VerbsSignals, WhoseLimitIsReachedIsNamed) {
  open(2);
  const tutti::Block block{.bytes = 8};
  const auto put = [&] { way(0, 1).put({&block, 1}); };
  for (std::atomic<int>* refused : {&faults_->create_pair_error, &faults_->register_error}) {
    *refused = ENOMEM;
    const auto thrown = test::thrown_by(put);
    EXPECT_EQ(thrown.code, ErrorCode::system);
    EXPECT_THAT(thrown.text, ::testing::HasSubstr("ulimit -l"));
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{0}) << thrown.text;
  }
  EXPECT_EQ(faults_->fired, 2);
  put_and_notify(0, 1, 8, 3);
  EXPECT_EQ(signalled(1, 3, 0), 1U);
}

// There are receives for one source.
TEST_F(VerbsSignals, WhoAsksAgainTakesThePlaceThatItHad) {
  open(2);
  bool lost = true;
  at(0).to[1] = at(0).access->reach(1, [&](auto question) {
    auto answer = at(1).access->answer(0, question);
    if (std::exchange(lost, false)) throw Error(ErrorCode::timeout, "rank 1 did not answer", {1});
    return answer;
  });
  const auto before = counters_of(*fake_).pairs;
  const tutti::Block block{.bytes = 8};
  EXPECT_EQ(test::thrown_by([&] { way(0, 1).put({&block, 1}); }).code, ErrorCode::timeout);
  for (int k = 0; k < 200; ++k) put_and_notify(0, 1, 8, 3), signalled(1, 3, 0);
  EXPECT_EQ(counters_of(*fake_).pairs, before + 2);
  EXPECT_EQ(signalled(1, 3, 0), 200U);
  EXPECT_EQ(word(1, 3, 0), 0U);
}

TEST_F(VerbsSignals, WithoutReceivesTotalsAreWrittenUntilTheTargetLooks) {
  open(2);
  for (int k = 0; k < 1000; ++k) put_and_notify(0, 1, 8, k % 2 == 0 ? 0 : 2);
  EXPECT_EQ(signalled(1, 0, 0) + signalled(1, 2, 0), std::uint64_t{receives});
  EXPECT_EQ(word(1, 0, 0), 500 - receives / 2);
  EXPECT_EQ(word(1, 2, 0), 500 - receives / 2);
  // It has looked, so they are immediates again, for ever if it goes on looking.
  for (int k = 0; k < 1000; ++k) {
    EXPECT_EQ(requests_of([&] { put_and_notify(0, 1, 8, 0); }), 1U);
    signalled(1, 0, 0);
  }
  EXPECT_EQ(signalled(1, 0, 0), 1000 + receives / 2);
  EXPECT_EQ(word(1, 0, 0), 500 - receives / 2);
}

// As devices do it where a source has gone; here it has not.
TEST_F(VerbsSignals, ASourceWhoseReceivesAreRefusedWritesTotals) {
  open(2);
  for (int k = 0; k < receives / 2; ++k) put_and_notify(0, 1, 8, 0);
  faults_->receive_error = EINVAL;
  EXPECT_EQ(signalled(1, 0, 0), receives / 2U);
  EXPECT_EQ(faults_->fired, 1);
  for (int k = 0; k < 100; ++k) put_and_notify(0, 1, 8, 0), signalled(1, 0, 0);
  EXPECT_EQ(signalled(1, 0, 0), std::uint64_t{receives});
  EXPECT_EQ(word(1, 0, 0), 100 - receives / 2U);
}

TEST_F(VerbsSignals, SourcesBeyondTheCompletionQueueWriteTotals) {
  FakeDevice small;
  small.max_cqe = 120;  // for one source
  verbs::VerbsOptions options;
  options.prove_gid = false;  // which takes two queue pairs
  open(3, small, options);
  for (int k = 0; k < 100; ++k)
    for (const Rank source : {1, 2}) put_and_notify(source, 0, 8, 1), signalled(0, 1, source);
  EXPECT_EQ(signalled(0, 1, 1), 100U);
  EXPECT_EQ(word(0, 1, 1), 0U);
  EXPECT_EQ(signalled(0, 1, 2), 0U);
  EXPECT_EQ(word(0, 1, 2), 100U);
}

TEST_F(VerbsSignals, DevicesThatTakeNothingInlineAndLongPutsInParts) {
  FakeDevice device;
  device.max_inline = 0;
  device.longest_message = 1000;
  open(2, device);
  std::iota(at(0).memory.begin(), at(0).memory.end(), std::uint8_t{1});
  for (int k = 0; k < 200; ++k) {
    EXPECT_EQ(requests_of([&] { put_and_notify(0, 1, 2500, 0); }), 3U);
    signalled(1, 0, 0);
  }
  EXPECT_EQ(signalled(1, 0, 0), 200U);
  EXPECT_TRUE(
      std::equal(at(0).memory.begin(), at(0).memory.begin() + 2500, at(1).memory.begin() + bytes / 2));
  EXPECT_EQ(at(1).memory[bytes / 2 + 2500], 0);
}

TEST_F(VerbsSignals, OnInfiniBandALongPutIsPlainAndItsSignalEmpty) {
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  open(2, device);
  EXPECT_EQ(requests_of([&] { put_and_notify(0, 1, 8192, 0); }), 1U);
  EXPECT_EQ(requests_of([&] { put_and_notify(0, 1, 8193, 0); }), 2U);
  EXPECT_EQ(signalled(1, 0, 0), 2U);
}

TEST_F(VerbsSignals, LinksWithoutImmediatesGetTotals) {
  verbs::VerbsOptions options;
  options.signal = verbs::Signal::send;
  open(2, {}, options);
  put_and_notify(0, 1, 8, 0);
  EXPECT_EQ(signalled(1, 0, 0), 0U);
  EXPECT_EQ(word(1, 0, 0), 1U);
}

TEST_F(VerbsSignals, ASignalWakesASleeper) {
  open(2);
  const auto start = std::chrono::steady_clock::now();
  auto sleeper = std::async(std::launch::async, [this] {
    while (at(1).signalled.empty()) {
      at(1).access->wait(20s);
      at(1).access->progress();
    }
  });
  std::this_thread::sleep_for(20ms);
  put_and_notify(0, 1, 8, 0);
  sleeper.get();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  at(1).access->wait(1ms);  // nothing more
  EXPECT_EQ(signalled(1, 0, 0), 1U);
}

TEST_F(VerbsSignals, ADeviceThatIsTakenAwayIsNamedByWhoeverUsesIt) {
  open(2);
  put_and_notify(0, 1, 8, 0);
  take_away(*fake_, "fake0");
  const auto expect_loss = [](const std::function<void()>& use) {
    const auto thrown = test::thrown_by([&] {
      for (const Deadline deadline(20s); !deadline.passed();) use();
    });
    EXPECT_EQ(thrown.code, ErrorCode::system);
    EXPECT_THAT(thrown.text, ::testing::HasSubstr(::ibv_event_type_str(IBV_EVENT_DEVICE_FATAL)));
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{0}) << "whose device it is";
  };
  const tutti::Block block{.bytes = 8};
  way(0, 1).put({&block, 1});
  way(0, 1).submit();
  expect_loss([&] { way(0, 1).done(); });        // nothing completes
  expect_loss([&] { at(0).access->check(1); });  // nor comes
  at(0).to[1] = at(0).access->reach(1, [](auto) { return RemoteAccess::Bytes(); });
  expect_loss([&] { way(0, 1).put({&block, 1}); });  // nor connects
  // Who waits for others goes on sleeping.
  const auto before = Clock::now();
  at(0).access->wait(20ms);
  EXPECT_GE(Clock::now() - before, 20ms);
}

TEST_F(VerbsSignals, ASourceThatIsGoneHarmsNobodyElse) {
  open(3);
  for (int k = 0; k < receives / 2; ++k) put_and_notify(1, 0, 8, 0), put_and_notify(2, 0, 8, 0);
  at(1).to.clear();  // with signals under way, and none to take back its receives
  EXPECT_EQ(signalled(0, 0, 1), receives / 2U);
  for (int k = 0; k < 200; ++k) put_and_notify(2, 0, 8, 0), signalled(0, 0, 2);
  EXPECT_EQ(signalled(0, 0, 2), 200U + receives / 2);
  EXPECT_EQ(word(0, 0, 2), 0U);
  // The target goes before its source, with receives posted.
  put_and_notify(2, 0, 8, 0);
  at(0).access.reset();
  const tutti::Block block{.bytes = 8};
  way(2, 0).put({&block, 1});
  way(2, 0).submit();
  EXPECT_EQ(test::thrown_by([&] { way(2, 0).done(); }).code, ErrorCode::peer_lost);
}

}  // namespace
}  // namespace tutti::transport::testing
#endif
