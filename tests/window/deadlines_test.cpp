// Deadlines, and what waits say, over memory of targets that is as slow as a test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/ranks.hpp"
#include "transport/remote_memory.hpp"
#include "transport/tcp_ranks.hpp"
#include "window/state.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::HasSubstr;

/// What a test says of a target.
struct Slow {
  std::atomic<std::uint64_t> done{0};
  std::uint64_t started = 0;
  std::uint64_t done_after_looks = 0;  ///< 0: not by itself
  std::uint64_t looks = 0;
  const Slow* beside = nullptr;    ///< looks count only where this one was looked at in between
  std::uint64_t seen = 0;          ///< looks at that
  std::uint64_t lost_at_look = 0;  ///< which says so once
  bool lost = false;
  std::optional<Error> unreachable;  ///< what meets who connects
  bool asks = false;                 ///< whoever connects asks a server that answers nothing
  std::chrono::milliseconds start_takes{0};
};

class SlowMemory final : public transport::RemoteMemory {
 public:
  SlowMemory(Slow& target, transport::RemoteAccess::Ask ask) : target_(target), ask_(std::move(ask)) {}
  [[nodiscard]] std::string explain() const override { return "slow"; }
  void put(std::span<const Block>) override { start(); }
  void get(std::span<const Block>) override { start(); }
  void notify(std::uint32_t) override { start(); }
  [[nodiscard]] bool has_atomics() const override { return true; }
  void fetch_add(std::size_t, std::uint64_t, std::uint64_t*) override { start(); }
  void compare_swap(std::size_t, std::uint64_t, std::uint64_t, std::uint64_t*) override { start(); }
  [[nodiscard]] std::uint64_t started() const override { return target_.started; }
  std::uint64_t done() override {
    if (target_.lost) throw Error(ErrorCode::peer_lost, "it died");
    const Slow* const beside = target_.beside;
    if (beside != nullptr && std::exchange(target_.seen, beside->looks) == beside->looks) return target_.done;
    if (++target_.looks == target_.lost_at_look) throw Error(ErrorCode::peer_lost, "it died");
    if (target_.looks == target_.done_after_looks) target_.done = target_.started;
    return target_.done;
  }
  [[nodiscard]] std::uint64_t known_done() const override { return target_.done; }
  void wait(std::chrono::microseconds longest) override { std::this_thread::sleep_for(longest); }

 private:
  void start() {
    std::this_thread::sleep_for(target_.start_takes);
    if (target_.unreachable) throw Error(*target_.unreachable);
    if (target_.asks) ask_({});
    ++target_.started;
  }
  Slow& target_;
  transport::RemoteAccess::Ask ask_;
};

class SlowAccess final : public transport::RemoteAccess {
 public:
  explicit SlowAccess(std::span<Slow> targets) : targets_(targets) {}
  Bytes answer(Rank, std::span<const std::byte>) override { return {}; }
  std::unique_ptr<transport::RemoteMemory> reach(Rank target, Ask ask) override {
    return std::make_unique<SlowMemory>(targets_[static_cast<std::size_t>(target)], std::move(ask));
  }
  void progress() override {}
  void wait(std::chrono::microseconds longest) override { std::this_thread::sleep_for(longest); }
  void check(Rank) override {}

 private:
  std::span<Slow> targets_;
};

class SlowTransport final : public transport::Transport {
 public:
  explicit SlowTransport(std::span<Slow> targets) : targets_(targets) {}
  [[nodiscard]] std::string_view name() const override { return "slow"; }
  [[nodiscard]] bool reaches(Rank) const override { return true; }
  [[nodiscard]] std::string explain(Rank) const override { return "slow"; }
  [[nodiscard]] std::size_t max_message_bytes() const override { return 0; }
  transport::Sender& sender(Rank, int) override { throw std::logic_error("no messages"); }
  transport::Receiver& receiver(Rank, int) override { throw std::logic_error("no messages"); }
  std::unique_ptr<transport::RemoteAccess> expose(const transport::Exposure&) override {
    return std::make_unique<SlowAccess>(targets_);
  }
  void progress() override {}
  void wait(std::chrono::microseconds longest) override { std::this_thread::sleep_for(longest); }
  [[nodiscard]] bool add_waits(std::vector<pollfd>&) override { return false; }
  void end_wait(std::span<const pollfd>) override {}
  [[nodiscard]] transport::Traffic traffic() const override { return {}; }

 private:
  std::span<Slow> targets_;
};

/// Rank 0 of three. The others exist only as targets.
class WindowWithSlowTargets : public testing::Test {
 protected:
  static constexpr auto timeout = 30ms;

  Window make(
      std::chrono::milliseconds limit = timeout, bool (*move_queued)() = [] { return false; }) {
    detail::WindowSetting setting;
    setting.options = {.name = "kv"};
    setting.memory = std::as_writable_bytes(std::span(memory_));
    setting.group.size = static_cast<int>(targets_.size());
    setting.group.world = {0, 1, 2};
    setting.group.timeout = limit;
    setting.group.all_gather = [](std::span<const std::byte> mine) {
      return std::vector(3, std::vector(mine.begin(), mine.end()));
    };
    setting.counters = {counters_.data(), [](std::byte*) {}};
    setting.network = &transport_;
    setting.listener = [this] { return listener_; };
    setting.secret = transport::testing::tcp_secret;
    setting.check = [this] { check_(); };
    setting.move_queued = move_queued;
    return detail::WindowState::make_window(std::move(setting));
  }

  std::array<Slow, 3> targets_;
  Slow& one_ = targets_[1];
  Slow& two_ = targets_[2];
  std::function<void()> check_ = [] {};

 private:
  std::array<std::uint64_t, 64> memory_{};
  std::vector<std::byte> counters_ = std::vector<std::byte>(detail::Counters::bytes_for(64, 3));
  SlowTransport transport_{targets_};
  std::shared_ptr<transport::tcp::TcpListener> listener_ =
      transport::testing::listeners_at("127.0.0.1", 1).front();
};

TEST_F(WindowWithSlowTargets, ADeadlineTakesThePlaceOfTheTimeout) {
  Window window = make();
  for (const bool flushes : {false, true}) {
    Transfer slow = window.put(1, {.bytes = 8}, {.deadline = 60s});
    const std::jthread later([&] {
      std::this_thread::sleep_for(4 * timeout);
      one_.done = one_.started;
    });
    const auto thrown = thrown_by([&] { flushes ? window.flush() : slow.wait(); });
    EXPECT_FALSE(thrown.code) << thrown.text;
  }
  Transfer slow = window.put(1, {.bytes = 8}, {.deadline = 60s});
  EXPECT_EQ(thrown_by([&] { slow.wait(1ms); }).code, ErrorCode::timeout) << "of this wait";
  Transfer other = window.put(1, {.bytes = 8});
  EXPECT_EQ(thrown_by([&] { other.wait(); }).code, ErrorCode::timeout) << "the communicator's";
  one_.done = one_.started;
}

TEST_F(WindowWithSlowTargets, ADeadlineCountsFromTheCall) {
  Window window = make();
  one_.start_takes = 20ms;
  Transfer late = window.put(1, {.bytes = 8}, {.deadline = 10ms});
  EXPECT_EQ(thrown_by([&] { late.test(); }).code, ErrorCode::timeout);
  one_.done = one_.started;
  EXPECT_TRUE(late.test());
}

// As where a scheduler stops the process: it sees nothing come.
TEST_F(WindowWithSlowTargets, WhatPassesWithoutALookHardlyCounts) {
  constexpr auto limit = 500ms;
  int looks = 0;
  check_ = [&] {
    ++looks;
    if (looks == 3) std::this_thread::sleep_for(limit + 100ms);
    if (looks == 4) one_.done = one_.started;
  };
  Window window = make(limit);
  const auto thrown = thrown_by([&] { window.put(1, {.bytes = 8}).wait(); });
  EXPECT_FALSE(thrown.code) << thrown.text;
  EXPECT_EQ(one_.done, 1U);
}

TEST_F(WindowWithSlowTargets, ATransferOfNothingIsDoneAndBoundsNoOther) {
  Window window = make();
  Transfer slow = window.put(1, {.bytes = 8});
  Transfer nothing = window.put(1, {}, {.deadline = 0ms});
  Transfer empty = window.post(window.prepare_get(1, {}), {.deadline = 0ms});
  EXPECT_FALSE(slow.test());
  for (Transfer* one : {&nothing, &empty}) {
    EXPECT_TRUE(one->test());
    one->wait();
  }
  one_.done = one_.started;
  EXPECT_TRUE(slow.test());
}

TEST_F(WindowWithSlowTargets, OneThatDidNotAnswerIsAskedAgain) {
  Window window = make();
  one_.unreachable.emplace(ErrorCode::timeout, "it did not answer");
  const auto thrown = thrown_by([&] { window.put(1, {.remote = 16, .bytes = 8}); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  EXPECT_THAT(thrown.text,
              HasSubstr("window \"kv\" on rank 0: put of 8 bytes, rank 1 at offset 16: it did not answer"));
  one_.unreachable.reset();
  one_.done = 1;
  EXPECT_FALSE(thrown_by([&] { window.put(1, {.bytes = 8}).wait(); }).code);
  one_.lost = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(thrown_by([&] { window.put(1, {.bytes = 8}).wait(); }).code, ErrorCode::peer_lost);
    one_.lost = false;  // what has been lost stays lost
  }
}

TEST_F(WindowWithSlowTargets, AWaitSaysWhichTransferIsNotDone) {
  Window window = make();
  const std::array blocks{Block{.remote = 40, .bytes = 8}, Block{.remote = 80, .bytes = 16}};
  std::array transfers{window.put(1, {.remote = 16, .bytes = 64}), window.post(window.prepare_get(1, blocks)),
                       window.notify(1, 3)};
  const std::array names{"put of 64 bytes, rank 1 at offset 16", "get of 24 bytes, rank 1 at offset 40",
                         "notification, rank 1"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto thrown = thrown_by([&] { transfers.at(i).wait(1ms); });
    EXPECT_EQ(thrown.code, ErrorCode::timeout);
    EXPECT_THAT(thrown.text,
                HasSubstr(std::string("window \"kv\" on rank 0: ") + names.at(i) + ": not done"));
  }
  one_.done = one_.started;
}

TEST_F(WindowWithSlowTargets, AFlushOfAllWaitsForThoseThatCanBeReached) {
  Window window = make();
  window.put(1, {.bytes = 8});
  window.put(2, {.bytes = 8});
  one_.lost = true;
  two_.done_after_looks = 5;
  const auto thrown = thrown_by([&] { window.flush(); });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  EXPECT_EQ(two_.done, two_.started) << "after " << two_.looks << " looks";
}

// The limit is that of the whole call.
TEST_F(WindowWithSlowTargets, AFlushOfAllNamesTheFirstThatIsLate) {
  Window window = make();
  window.put(1, {.bytes = 8});
  window.put(2, {.bytes = 8});
  two_.beside = &one_;  // it moves while the first is waited for, or never
  two_.done_after_looks = 5;
  const auto thrown = thrown_by([&] { window.flush(); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  EXPECT_EQ(two_.done, two_.started) << "after " << two_.looks << " looks";
  one_.done = one_.started;
}

TEST_F(WindowWithSlowTargets, AFlushOfAllThrowsWhatItMetFirst) {
  Window window = make();
  window.put(1, {.bytes = 8});
  window.put(2, {.bytes = 8});
  two_.lost = true;
  const auto start = steady_clock::now();
  const auto thrown = thrown_by([&] { window.flush(); });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{2});
  EXPECT_GE(steady_clock::now() - start, timeout) << "the other is waited for";
  one_.done = one_.started;
}

// Of what a socket or a send queue had no room for. Whoever is waited for may wait for that.
TEST_F(WindowWithSlowTargets, EveryCallMovesWhatIsUnderWayToOthers) {
  Window window = make();
  Transfer late = window.put(1, {.bytes = 8});
  const auto moves = [&](const char* what, const std::function<void()>& call) {
    two_.done_after_looks = two_.looks + 5;
    window.put(2, {.bytes = 8});
    call();
    EXPECT_EQ(two_.done, two_.started) << what;
    two_.done = two_.started;
  };
  const auto times_out = [](const std::function<void()>& call) {
    EXPECT_EQ(thrown_by(call).code, ErrorCode::timeout);
  };
  moves("wait", [&] { times_out([&] { late.wait(10ms); }); });
  moves("flush", [&] { times_out([&] { window.flush(1); }); });
  moves("wait_notification", [&] { times_out([&] { window.wait_notification(0, 1, any_rank, 10ms); }); });
  moves("test", [&] {
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(late.test());
  });
  moves("test_notification", [&] {
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(window.test_notification(0));
  });
  one_.done = 1000;  // atomics are done at once
  moves("fetch_add", [&] {
    for (int i = 0; i < 5; ++i) window.fetch_add(1, 0, 1);
  });
}

// A look costs a system call, or a device's register. The window moves what is queued once a turn.
TEST_F(WindowWithSlowTargets, EachTurnLooksAtATargetOnce) {
  static std::uint64_t turns;
  Window window = make(timeout, [] { return ++turns, false; });
  Transfer late = window.put(1, {.bytes = 8});
  window.put(2, {.bytes = 8});
  const auto looks_once = [&](const char* what, const std::function<void()>& call) {
    const auto one = one_.looks, two = two_.looks, before = turns;
    call();
    EXPECT_LE(one_.looks - one, turns - before + 1) << what << ": and one after the last turn";
    EXPECT_LE(two_.looks - two, turns - before + 1) << what;
  };
  const auto times_out = [](const std::function<void()>& call) {
    EXPECT_EQ(thrown_by(call).code, ErrorCode::timeout);
  };
  looks_once("wait", [&] { times_out([&] { late.wait(); }); });
  looks_once("flush of one", [&] { times_out([&] { window.flush(1); }); });
  looks_once("flush", [&] { times_out([&] { window.flush(); }); });
  looks_once("wait_notification", [&] { times_out([&] { window.wait_notification(0, 1, 1, timeout); }); });
  const auto looks = one_.looks;
  EXPECT_FALSE(late.test());
  EXPECT_EQ(one_.looks, looks + 1) << "test";
  for (Slow* target : {&one_, &two_}) target->done = target->started;
}

TEST_F(WindowWithSlowTargets, ALossBesideADeadlineIsNamedAndKept) {
  Window window = make();
  Transfer slow = window.put(1, {.remote = 16, .bytes = 8}, {.deadline = 60s});
  one_.lost_at_look = one_.looks + 2;
  for (int i = 0; i < 2; ++i) {
    const auto thrown = thrown_by([&] { slow.wait(); });
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost);
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text,
                HasSubstr("window \"kv\" on rank 0: put of 8 bytes, rank 1 at offset 16: it died"));
  }
}

TEST_F(WindowWithSlowTargets, WhatIsDoneStaysDoneWhenItsTargetIsLost) {
  Window window = make();
  Transfer done = window.put(1, {.bytes = 8}), lost = window.put(1, {.bytes = 8});
  one_.done = 1;
  one_.lost = true;
  EXPECT_EQ(thrown_by([&] { lost.wait(); }).code, ErrorCode::peer_lost);
  EXPECT_TRUE(done.test());
  const auto thrown = thrown_by([&] { done.wait(); });
  EXPECT_FALSE(thrown.code) << thrown.text;
  EXPECT_EQ(thrown_by([&] { lost.test(); }).code, ErrorCode::peer_lost);
  EXPECT_EQ(thrown_by([&] { window.flush(1); }).code, ErrorCode::peer_lost);
}

TEST_F(WindowWithSlowTargets, WhatThisRankLacksIsItsOwnFaultAndMayComeLater) {
  Window window = make();
  one_.unreachable.emplace(ErrorCode::system, "too many open files", std::vector<Rank>{0});
  const auto thrown = thrown_by([&] { window.put(1, {.bytes = 8}); });
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
  one_.unreachable.reset();
  one_.done = 1;
  const auto later = thrown_by([&] { window.put(1, {.bytes = 8}).wait(); });
  EXPECT_FALSE(later.code) << later.text;
}

TEST_F(WindowWithSlowTargets, AnAbortMetWhileConnectingNamesWhoAborted) {
  Window window = make();
  one_.unreachable.emplace(ErrorCode::aborted, "enough of it", std::vector<Rank>{2});
  EXPECT_EQ(thrown_by([&] { window.put(1, {.bytes = 8}); }).ranks, std::vector<Rank>{2});
}

TEST_F(WindowWithSlowTargets, AnAbortNamesTheWindowThatItEnds) {
  Window window = make(60s);
  Transfer late = window.put(1, {.bytes = 8});
  check_ = [] { throw Error(ErrorCode::aborted, "enough of it", {2}); };
  const auto is_ended = [](const std::function<void()>& call) {
    const auto thrown = thrown_by([&] {
      for (;;) call();  // it looks now and then
    });
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{2});
    EXPECT_THAT(thrown.text, HasSubstr("window \"kv\" on rank 0: enough of it"));
  };
  is_ended([&] { late.wait(); });
  is_ended([&] { late.test(); });
  is_ended([&] { window.flush(); });
  is_ended([&] { window.wait_notification(0); });
  is_ended([&] { static_cast<void>(window.test_notification(0)); });
  // For good: nothing is started either, however soon it follows.
  EXPECT_EQ(thrown_by([&] { window.put(2, {.bytes = 8}); }).code, ErrorCode::aborted);
  EXPECT_EQ(two_.started, 0U);
  one_.done = one_.started;
}

TEST_F(WindowWithSlowTargets, AnAbortEndsTheQuestionOfAFirstContact) {
  int looks = 0;
  check_ = [&looks] {
    if (++looks > 1) throw Error(ErrorCode::aborted, "enough of it", {2});  // the first is that of the call
  };
  one_.asks = true;
  Window window = make(60s);
  const auto thrown = thrown_by([&] { window.put(1, {.bytes = 8}); });
  EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{2});
  EXPECT_THAT(thrown.text, HasSubstr("window \"kv\" on rank 0: put of 8 bytes, rank 1 at offset 0"));
}

TEST_F(WindowWithSlowTargets, AnAtomicThatIsLateMayStillTakeEffect) {
  Window window = make();
  const auto thrown = thrown_by([&] { window.fetch_add(1, 8, 1); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  EXPECT_THAT(thrown.text, HasSubstr("window \"kv\" on rank 0: atomic of 8 bytes, rank 1 at offset 8: not "
                                     "done in time; it may still take effect"));
}

}  // namespace
}  // namespace tutti::test
