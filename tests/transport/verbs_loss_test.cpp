// Peers that die and networks that break, on real devices. Each test shows by the kernel's counters that what
// it broke was broken. In the lab only: scripts/rdma-lab has `lab-fault`.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include <tutti/error.hpp>

#include "rig.hpp"
#include "verbs_devices.hpp"

namespace tutti::transport::testing {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool fault(const std::string& arguments) {
  return std::system(("lab-fault " + arguments + " 2>/dev/null").c_str()) == 0;  // NOLINT(cert-env33-c)
}

/// A rank in a process of its own, which serves one message and then hangs until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(const verbs::VerbsOptions& options) {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) std::abort();
    process_ = ::fork();
    socket_ = sockets.at(process_ == 0 ? 1 : 0);
    ::close(sockets.at(process_ == 0 ? 0 : 1));
    if (process_ != 0) return;
    ::alarm(60);
    const auto mine = make(1, options);
    std::byte ball{};
    for (;;) {
      mine->receiver(0, 0).try_receive(&ball, 1, 1);
      mine->wait(std::chrono::milliseconds(1));
    }
  }
  ~OtherProcess() {
    kill();
    ::close(socket_);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  [[nodiscard]] std::unique_ptr<verbs::VerbsTransport> make(Rank rank,
                                                            const verbs::VerbsOptions& options) const {
    auto group = local_groups(2)[static_cast<std::size_t>(rank)];
    group.all_gather = [this, rank](std::span<const std::byte> mine) {
      std::vector<std::byte> theirs(4096);
      const bool sent = ::send(socket_, mine.data(), mine.size(), 0) == static_cast<ssize_t>(mine.size());
      const auto got = ::recv(socket_, theirs.data(), theirs.size(), 0);
      if (!sent || got <= 0) throw std::runtime_error("the other process is gone");
      theirs.resize(static_cast<std::size_t>(got));
      std::vector<std::vector<std::byte>> both{{mine.begin(), mine.end()}, theirs};
      if (rank == 1) std::swap(both[0], both[1]);
      return both;
    };
    return std::make_unique<verbs::VerbsTransport>(group, listeners_at("127.0.0.1", 1)[0], tcp_secret,
                                                   options);
  }
  void kill() const {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

Error error_of(Transport& mine, bool sending, std::chrono::seconds longest) {
  std::vector<std::byte> data(1000);
  try {
    for (const Deadline deadline(longest); !deadline.passed();) {
      if (sending) mine.sender(1, 1).try_send(data.data(), data.size(), 1, false);
      if (!sending) mine.receiver(1, 0).try_receive(data.data(), 1, 1);
      mine.progress();
      mine.wait(std::chrono::milliseconds(1));
    }
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::timeout, "no error came"};
}

TEST(VerbsLoss, AKilledPeerIsNoticedWithinASecond) {
  if (device_nodes(1).empty()) GTEST_SKIP() << "no RDMA device";
  for (const bool sending : {false, true}) {
    const OtherProcess other(device_options(1, 1));
    const auto mine = other.make(0, device_options(0, 1));
    std::byte ball{1};
    const Deadline deadline(std::chrono::seconds(20));
    mine->sender(1, 0).try_send(&ball, 1, 1, false);
    while (!mine->sender(1, 0).flushed() && !deadline.passed()) mine->progress();
    other.kill();
    const auto killed = Clock::now();
    const auto error = error_of(*mine, sending, std::chrono::seconds(10));
    EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
    EXPECT_EQ(error.code(), ErrorCode::peer_lost) << error.what();
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
  }
}

TEST(VerbsLoss, ABlackHoleIsNoticedWithinTheBudget) {
  if (device_nodes(1).size() < 2) GTEST_SKIP() << "needs two RDMA nodes";
  verbs::VerbsOptions options;
  options.timeout = 14;
  options.retries = 3;  // 0.27 s together
  const auto ranks = device_ranks(2, 1, options);
  if (!fault("0_0 none")) GTEST_SKIP() << "no lab-fault: not in scripts/rdma-lab";
  std::byte ball{1};
  const Deadline deadline(std::chrono::seconds(20));
  ranks[0]->sender(1, 1).try_send(&ball, 1, 1, false);
  while (!ranks[1]->receiver(0, 1).try_receive(&ball, 1, 1) && !deadline.passed()) {
    ranks[0]->progress();
    ranks[1]->progress();
  }
  const auto before = counter("rx0_0", "retry_exceeded_err");
  ASSERT_TRUE(fault("0_0 loss 100%"));
  const auto cut = Clock::now();
  const auto error = error_of(*ranks[0], true, std::chrono::seconds(20));
  fault("0_0 none");
  EXPECT_EQ(error.code(), ErrorCode::peer_lost);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("rx0_0 port 1 to rank 1"), HasSubstr("within 0.268 s (timeout 14, 3 retries)"),
                    HasSubstr("TUTTI_VERBS_TIMEOUT")));
  EXPECT_LT(Clock::now() - cut, std::chrono::seconds(3));
  EXPECT_GT(counter("rx0_0", "retry_exceeded_err"), before);
}

TEST(VerbsLoss, AFlapShorterThanTheBudgetIsBridged) {
  if (device_nodes(1).size() < 2) GTEST_SKIP() << "needs two RDMA nodes";
  verbs::VerbsOptions options;
  options.timeout = 18;  // 7.5 s with six retries: scripts are slow in an emulated machine
  const auto ranks = device_ranks(2, 1, options);
  if (!fault("0_0 none")) GTEST_SKIP() << "no lab-fault: not in scripts/rdma-lab";
  const auto before = counter("rx0_0", "completer_retry_err");
  std::vector<std::byte> data(50'000);
  std::vector<std::byte> got(data.size());
  const Deadline deadline(std::chrono::seconds(30));
  for (Tag sent = 0, taken = 0; taken < 60 && !deadline.passed();) {
    fill(data, sent);
    if (sent < 60 && ranks[0]->sender(1, 0).try_send(data.data(), data.size(), sent, false)) ++sent;
    if (ranks[1]->receiver(0, 0).try_receive(got.data(), got.size(), taken)) {
      require_filled(got, taken++, "a message across a flap");
      if (taken == 20) fault("0_0 loss 100%");
      if (taken == 20) std::thread([] { ::usleep(500'000), fault("0_0 none"); }).detach();
    }
    ranks[0]->progress();
    ranks[1]->progress();
  }
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(counter("rx0_0", "completer_retry_err"), before);
}

TEST(VerbsLoss, NoReceiverIsEverNotReady) {
  const auto nodes = device_nodes(1);
  if (nodes.empty()) GTEST_SKIP() << "no RDMA device";
  if (!counts_not_ready(nodes)) GTEST_SKIP() << "no known counter of receivers that are not ready";
  const auto before = receivers_not_ready(nodes);
  for (const bool shared : {true, false}) {
    verbs::VerbsOptions options;
    options.shared_receives = shared;
    options.message_bytes = std::size_t{64} << 10;  // soft devices carry 15 MB/s, and credits count messages
    const Subject subject{.name = "counted",
                          .make = [&](int ranks) { return device_ranks(ranks, 1, options); }};
    check_named("three_random").run(subject);
    check_named("flood_all_channels").run(subject);
  }
  EXPECT_EQ(receivers_not_ready(nodes), before);
}

}  // namespace

}  // namespace tutti::transport::testing
