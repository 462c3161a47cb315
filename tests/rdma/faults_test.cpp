// What breaks under collectives between nodes, and what every surviving rank is told, in what time. Each test
// shows that what it broke was broken.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr int ranks = 8;
constexpr Rank victim = 5;  // on node 2, with rank 4
constexpr std::size_t count = 10'000;

/// What the ranks of a job saw, for the test.
struct Seen {
  std::atomic<std::int64_t> striking_at, struck_at;  ///< before and after: scripts take their time
  std::atomic<int> rounds[ranks];
  std::atomic<std::int64_t> longest[ranks];  ///< round, in clock ticks
  std::atomic<std::int64_t> failed_at[ranks];
  std::atomic<int> code[ranks];  ///< ErrorCode; -1: none
};

std::int64_t now() { return Clock::now().time_since_epoch().count(); }
std::chrono::duration<double> seconds(std::int64_t ticks) { return Clock::duration(ticks); }

using Strike = std::function<void()>;

/// all_reduces, each checked, until one fails; after three rounds the rank `striker` strikes in the middle of
/// one. If none fails they go on `for_so_long`, and until the strike is over.
Thrown all_reduces(Communicator& comm, Seen& seen, std::chrono::seconds for_so_long, Rank striker,
                   const Strike& strike) {
  const auto me = static_cast<std::size_t>(comm.rank());
  std::jthread thread;
  seen.code[me] = -1;
  const auto thrown = thrown_by([&] {
    std::int32_t go_on = 1;  // rank 0's clock says so
    for (const auto start = Clock::now(); go_on != 0;) {
      const auto begun = now();
      if (seen.rounds[me] == 3 && comm.rank() == striker)
        thread = std::jthread([&] {
          std::this_thread::sleep_for(5ms);
          seen.striking_at = now();
          strike();
          seen.struck_at = now();
        });
      expect_right(comm, {.count = count, .seed = static_cast<std::uint32_t>(seen.rounds[me]) % 4});
      seen.longest[me] = std::max(seen.longest[me].load(), now() - begun);
      ++seen.rounds[me];
      go_on = Clock::now() - start < for_so_long || seen.struck_at == 0 ? 1 : 0;
      comm.broadcast(std::span(&go_on, 1), 0);
    }
  });
  seen.failed_at[me] = now();
  if (thrown.code) seen.code[me] = static_cast<int>(*thrown.code);
  return thrown;
}

void stop_for(std::chrono::milliseconds time) {
  const auto me = ::getpid();
  if (::fork() == 0) {
    ::usleep(static_cast<useconds_t>(time.count() * 1000));
    ::kill(me, SIGCONT);
    ::_exit(0);
  }
  ::kill(me, SIGSTOP);
  std::this_thread::sleep_for(time);  // another thread may be the one that takes the signal, a little later
}

/// All but one rank, so many seconds after `since` at most.
void expect_failed_within(const Seen& seen, std::int64_t since, double most, Rank except = -1) {
  ASSERT_GT(since, 0) << "nothing happened";
  double first = most, last = 0;
  for (Rank survivor = 0; survivor < ranks; ++survivor) {
    if (survivor == except) continue;
    const auto r = static_cast<std::size_t>(survivor);
    EXPECT_GE(seen.rounds[r], 3);
    EXPECT_NE(seen.code[r], -1) << "rank " << survivor << " noticed nothing";
    const double after = seconds(seen.failed_at[r] - since).count();
    EXPECT_LE(after, most) << "rank " << survivor;
    first = std::min(first, after);
    last = std::max(last, after);
  }
  fmt::print("noticed after {:.3f} to {:.3f} s\n", first, last);
}

class LabFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(4, 1); !lacks.empty()) GTEST_SKIP() << lacks;
  }
  void TearDown() override {
    if (IsSkipped()) return;
    for (const char* node : {"0", "1", "2", "3"}) fault(std::string(node) + " none");
  }
  static Job eight(const char* timeout, const char* retries) {
    Job made = job(ranks, 4, 1);
    made.variables = {{"TUTTI_VERBS_TIMEOUT", timeout}, {"TUTTI_VERBS_RETRIES", retries}};
    return made;
  }
  const Shared<Seen> seen_;
};

TEST_F(LabFaults, AKilledRankIsNamedToAllWithinASecond) {
  auto codes = run_on_nodes(job(ranks, 4, 1), [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 30s, victim, [] { ::kill(::getpid(), SIGKILL); });
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{victim}) << thrown.text;
  });
  EXPECT_EQ(codes[victim], -SIGKILL);
  codes[victim] = 0;
  EXPECT_EQ(codes, std::vector<int>(ranks));
  expect_failed_within(*seen_, seen_->striking_at, 1, victim);
}

// A ring knows its neighbours only: the one that waits for the stopped rank itself names it, where it is not
// told of another one's deadline right before its own.
TEST_F(LabFaults, ARankStoppedForLongerThanTheDeadlineEndsTheOperationEverywhere) {
  Job impatient = job(ranks, 4, 1);
  impatient.options.timeout = 2s;
  impatient.options.algorithm = "ring";
  expect_well(impatient, [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 30s, victim, [] { stop_for(4s); });
    if (comm.rank() == victim) return;  // hears of it when it wakes up
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::timeout, ErrorCode::aborted)) << thrown.text;
    if (comm.rank() == victim + 1 && thrown.code == ErrorCode::timeout) {
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{victim}) << thrown.text;
    }
  });
  expect_failed_within(*seen_, seen_->striking_at, 3.5, victim);
}

TEST_F(LabFaults, ARankStoppedForASecondOnlyTakesTime) {
  expect_well(job(ranks, 4, 1), [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 0s, victim, [] { stop_for(1s); });
    EXPECT_EQ(thrown.code, std::nullopt) << thrown.text;
  });
  EXPECT_GT(seconds(seen_->longest[0]).count(), 0.9);
}

TEST_F(LabFaults, ABlackHoleLongerThanTheBudgetIsAnErrorInEveryRank) {
  const Rise gave_up(4, 1, "retry_exceeded_err");
  expect_well(eight("14", "3"), [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 30s, 0, [] { fault("1_0 loss 100%"); });
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::peer_lost, ErrorCode::aborted)) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("within 0.268 s (timeout 14, 3 retries)"));
  });
  expect_failed_within(*seen_, seen_->struck_at, 2);
  EXPECT_GT(gave_up.so_far(), 0);
}

TEST_F(LabFaults, ABlackHoleShorterThanTheBudgetOnlyTakesTime) {
  const Rise repeated(4, 1, "completer_retry_err");
  expect_well(eight("19", "6"), [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 0s, 0, [] {
      fault("1_0 loss 100%");
      std::this_thread::sleep_for(600ms);
      fault("1_0 none");
    });
    EXPECT_EQ(thrown.code, std::nullopt) << thrown.text;
  });
  EXPECT_GT(seconds(seen_->longest[0]).count(), 0.5);
  EXPECT_GT(repeated.so_far(), 0);
}

TEST_F(LabFaults, ADeviceThatGoesDownIsAnErrorInEveryRank) {
  expect_well(eight("14", "3"), [&](Communicator& comm) {
    const auto thrown = all_reduces(comm, *seen_, 30s, 0, [] { fault("1_0 down"); });
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::peer_lost, ErrorCode::aborted, ErrorCode::system))
        << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("verbs, rx"));
  });
  EXPECT_THAT(output_of("rdma link show rx1_0/1"), HasSubstr("state DOWN"));
  fault("1_0 up");
  expect_failed_within(*seen_, seen_->struck_at, 2);
}

// The switch takes shorter packets than both ends: only long messages are lost, and no device says why. Those
// that are lost come from the other node: where the cable itself takes no such packet, Soft-RoCE never gives
// up.
TEST_F(LabFaults, AnMtuThatThePathDoesNotHaveIsExplained) {
  Job two = job(2, 2, 1);
  two.options.timeout = 10s;
  two.variables = {{"TUTTI_VERBS_TIMEOUT", "14"}, {"TUTTI_VERBS_RETRIES", "3"}};
  ASSERT_EQ(output_of("ip link set p0_0 mtu 1500 2>&1"), "");
  const Rise gave_up(2, 1, "retry_exceeded_err");
  expect_well(two, [&](Communicator& comm) {
    expect_right(comm, {.count = 10});
    const auto thrown = thrown_by([&] {
      expect_right(comm, {.operation = Operation::broadcast, .count = 20'000, .root = 1});
      comm.barrier();  // who sent may not know yet
    });
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::peer_lost, ErrorCode::aborted)) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("TUTTI_VERBS_MTU"));
  });
  EXPECT_GT(gave_up.so_far(), 0);
  two.variables["TUTTI_VERBS_MTU"] = "1024";
  expect_well(two, [](Communicator& comm) { expect_right(comm, {.count = 20'000}); });
  ASSERT_EQ(output_of("ip link set p0_0 mtu 4400 2>&1"), "");
}

// Root may lock what it likes, as long as it has this capability.
void limit_locked_memory(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  const bool read = ::syscall(SYS_capget, &header, data.data()) == 0;
  for (auto* set : {&data[0].effective, &data[0].permitted}) *set &= ~(1U << CAP_IPC_LOCK);
  if (!read || ::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || ::syscall(SYS_capset, &header, data.data()) != 0)
    throw std::runtime_error("cannot limit locked memory");
}

TEST_F(LabFaults, TooLittleLockedMemoryIsExplained) {
  Job four = job(4, 4, 1);
  four.prepare = [](Rank rank) {
    if (rank == 2) limit_locked_memory(std::size_t{256} << 10);
  };
  four.join_fails = [](Rank rank, const Error& error) {
    EXPECT_EQ(error.code(), rank == 2 ? ErrorCode::system : ErrorCode::aborted);
    EXPECT_THAT(error.what(), HasSubstr("ulimit -l")) << "rank " << rank;
  };
  expect_well(four, [](Communicator&) { ADD_FAILURE() << "there is a communicator"; });
}

/// A control group whose processes may have so many objects of RDMA devices: the kernel's limit for
/// containers.
class FewObjects {
 public:
  FewObjects() {
    const auto made = output_of(
        "mkdir -p /run/groups && mount -t cgroup2 none /run/groups && "
        "echo +rdma >/run/groups/cgroup.subtree_control && mkdir " +
        folder_);
    if (!std::filesystem::exists(folder_ + "/rdma.max"))
      throw std::runtime_error("no control group: " + made);
  }
  ~FewObjects() { output_of("rmdir " + folder_ + "; umount /run/groups"); }
  FewObjects(const FewObjects&) = delete;
  FewObjects& operator=(const FewObjects&) = delete;

  /// For this process.
  void enter() const { std::ofstream(folder_ + "/cgroup.procs") << 0 << std::flush; }
  /// To what there is now, which it returns.
  [[nodiscard]] int limit_to_present(const std::string& device) const {
    int present = 0;
    std::ifstream lines(folder_ + "/rdma.current");
    for (std::string name, handles, objects; lines >> name >> handles >> objects;)
      if (name == device) present = std::stoi(objects.substr(objects.find('=') + 1));
    std::ofstream(folder_ + "/rdma.max") << device << " hca_object=" << present << std::flush;
    return present;
  }

 private:
  std::string folder_ = "/run/groups/few";
};

// The communicator uses some queue pairs when it is made; a peer that it then never spoke to needs one more.
TEST_F(LabFaults, TooFewQueuePairsAreExplained) {
  const FewObjects few;
  constexpr Rank poor = 2;
  constexpr Rank never_spoken_to = 5;
  Job eight = job(ranks, 4, 1);
  eight.options.algorithm = "ring";
  eight.prepare = [&](Rank rank) {
    if (rank == poor) few.enter();
  };
  expect_well(eight, [&](Communicator& comm) {
    const auto start = Clock::now();
    const auto thrown = thrown_by([&] {
      std::vector<std::int32_t> data(1000);
      comm.barrier();
      // A connection makes its queue pair before it registers memory.
      if (comm.rank() == poor) {
        EXPECT_GT(few.limit_to_present("rx1_0"), 5);
      }
      if (comm.rank() == poor) comm.send(std::span<const std::int32_t>(data), never_spoken_to);
      if (comm.rank() == never_spoken_to) comm.receive(std::span(data), poor);
      comm.barrier();
    });
    EXPECT_EQ(thrown.code, comm.rank() == poor ? ErrorCode::system : ErrorCode::aborted) << thrown.text;
    EXPECT_THAT(thrown.text, AllOf(HasSubstr("creating a queue pair"), HasSubstr("rdma.max")));
    EXPECT_LT(Clock::now() - start, 5s) << "rank " << comm.rank();
  });
}

// One fault of the network of every node, and how to tell that it was there.
struct Weather {
  const char* name;
  const char* terms;
  const char* counter;  ///< of the devices, that must rise
};

class LabWeather : public LabFaults, public testing::WithParamInterface<Weather> {};
INSTANTIATE_TEST_SUITE_P(Each, LabWeather,
                         testing::Values(Weather{"loss_a_thousandth", "loss 0.1%", "out_of_seq_request"},
                                         Weather{"loss_half_a_percent", "loss 0.5%", "out_of_seq_request"},
                                         Weather{"loss_one_percent", "loss 1%", "out_of_seq_request"},
                                         Weather{"duplicates", "duplicate 2%", "duplicate_request"},
                                         Weather{"corruption", "corrupt 0.5%", "out_of_seq_request"},
                                         Weather{"delay", "delay 3ms", nullptr}),
                         [](const auto& one) { return one.param.name; });

TEST_P(LabWeather, TheDataIsRight) {
  const auto [name, terms, shown_by] = GetParam();
  const FaultEverywhere weather(4, terms);
  std::optional<Rise> shown;
  if (shown_by != nullptr) shown.emplace(4, 1, shown_by);
  const Rise gave_up(4, 1, "retry_exceeded_err");
  expect_well(eight("16", "6"), [&](Communicator& comm) {
    for (int round = 0; round < 2; ++round) {
      std::uint32_t seed = static_cast<std::uint32_t>(round) + 1;
      for (const Operation operation : data_operations())
        for (const std::size_t items : {10U, 12'000U})
          expect_right(comm, {.operation = operation, .count = items, .seed = ++seed});
    }
    comm.barrier();
  });
  if (shown) {
    EXPECT_GT(shown->so_far(), 0) << shown_by;
  } else {
    EXPECT_THAT(output_of("tc -s qdisc show dev v0_0"),
                AllOf(HasSubstr(terms), Not(HasSubstr("Sent 0 bytes"))));
  }
  EXPECT_EQ(gave_up.so_far(), 0);
}

// Every rank puts to one of the next node and looks at what it gets now and then: immediates and totals in
// turn.
TEST_P(LabWeather, NotificationsAreCountedAndFollowTheirData) {
  const auto [name, terms, shown_by] = GetParam();
  const FaultEverywhere weather(4, terms);
  std::optional<Rise> shown;
  if (shown_by != nullptr) shown.emplace(4, 1, shown_by);
  const Rise not_ready(4, 1, "rcvd_rnr_err");
  expect_well(eight("16", "6"), [&](Communicator& comm) {
    constexpr std::size_t words = 64;
    constexpr std::size_t puts = 400;
    auto buffer = comm.allocate<std::uint64_t>(2 * puts * words);
    const auto got = buffer.span().subspan(puts * words);
    const auto next = static_cast<Rank>((comm.rank() + 2) % comm.size());
    const auto previous = static_cast<Rank>((comm.rank() + 6) % comm.size());
    Window window(comm, buffer.span());
    for (std::size_t round = 1; round <= 2; ++round) {
      std::ranges::fill(buffer.span().first(puts * words), round);
      std::ranges::fill(got, 0U);
      comm.barrier();
      for (std::size_t k = 0; k < puts; ++k)
        window.put(next, {.local = k * words * 8, .remote = (puts + k) * words * 8, .bytes = words * 8},
                   {.notify = 1});
      for (std::size_t taken = 0; taken < puts; taken += puts / 8) {
        window.wait_notification(1, puts / 8, previous);
        const auto expected = (taken + puts / 8) * words;
        ASSERT_EQ(std::ranges::count(got.first(expected), round), static_cast<std::ptrdiff_t>(expected));
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_FALSE(window.test_notification(1));
      window.flush();
      comm.barrier();
    }
  });
  if (shown) {
    EXPECT_GT(shown->so_far(), 0) << shown_by;
  }
  EXPECT_EQ(not_ready.so_far(), 0);
}

}  // namespace
}  // namespace tutti::test
