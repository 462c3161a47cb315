// Whoever else connects to the port, and children made by fork.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stop_token>
#include <thread>

#include "bootstrap/authenticate.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/socket.hpp"
#include "rig.hpp"
#include "tcp_ranks.hpp"
#include "thrown.hpp"
#include "transport/tcp/dial.hpp"
#include "transport/tcp/inbox.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;

FileDescriptor call(std::uint16_t port) {
  auto socket = bootstrap::try_connect({"127.0.0.1", port}, Deadline(std::chrono::seconds(10)));
  return socket ? std::move(*socket) : FileDescriptor();
}

TEST(TcpStrangers, DisturbNobody) {
  const auto listeners = listeners_at("127.0.0.1", 2);
  const auto ranks = tcp_over(listeners, local_groups(2));
  pass(*ranks[0], *ranks[1], 0, 1, 0, 1);
  std::vector<FileDescriptor> silent;  // more than the listener keeps
  for (int i = 0; i < 400; ++i) silent.push_back(call(listeners[1]->port()));
  std::atomic<int> noisy{0};
  std::jthread noise([&](const std::stop_token& stop) {
    const std::vector<std::byte> garbage(500, std::byte{'x'});
    while (!stop.stop_requested()) {
      const auto socket = call(listeners[1]->port());
      noisy += socket && ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0 ? 1 : 0;
    }
  });
  for (Tag tag = 2; tag < 200 || noisy < 20; ++tag)
    pass(*ranks[0], *ranks[1], 0, 1, static_cast<int>(tag % 4), tag);
  noise.request_stop();
  EXPECT_GE(noisy, 20);
}

TEST(TcpStrangers, GetNothingButAChallenge) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  const auto socket = call(listeners[0]->port());
  const std::vector<std::byte> guess(80, std::byte{7});  // as long as a proof
  ASSERT_EQ(::send(socket.get(), guess.data(), guess.size(), MSG_NOSIGNAL), 80);
  std::size_t got = 0;
  std::vector<std::byte> answer(200);
  bool hung_up = false;
  while (!hung_up && bootstrap::wait_for(socket.get(), POLLIN, Deadline(std::chrono::seconds(10)))) {
    const auto part = bootstrap::receive_some(socket.get(), answer);
    hung_up = !part;
    got += part.value_or(0);
  }
  EXPECT_TRUE(hung_up);
  EXPECT_LE(got, 64U);  // a challenge, and zeros
}

TEST(TcpStrangers, OfTheSecretButOfNoCommunicatorAreHungUpOn) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  const bootstrap::Hello hello{3, 4, tcp::Purpose{.communicator = 99}.pack()};
  const auto socket = bootstrap::connect_authenticated("127.0.0.1", listeners[0]->port(), tcp_secret, hello,
                                                       Deadline(std::chrono::seconds(10)));
  ASSERT_TRUE(bootstrap::wait_for(socket.get(), POLLIN, Deadline(std::chrono::seconds(10))));
  std::array<std::byte, 1> byte{};
  EXPECT_EQ(::recv(socket.get(), byte.data(), 1, 0), 0);
}

// Nobody accepts there: connections wait in the kernel until its queue is full, and are not answered then.
TEST(TcpDial, AsksWhileItWaits) {
  const auto listener = bootstrap::listen_at({"127.0.0.1", 0});
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const auto endpoint = bootstrap::local_endpoint(listener.get());
  std::vector<FileDescriptor> waiting;
  for (const bool accepted : {true, false}) {
    while (!accepted) {  // until one is not answered
      auto socket = bootstrap::try_connect(endpoint, Deadline(std::chrono::milliseconds(100)));
      if (!socket) break;
      waiting.push_back(std::move(*socket));
    }
    const auto start = Clock::now();
    int asked = 0;
    const auto check = [&] {
      if (++asked == 5) throw Error(ErrorCode::aborted, "enough");
    };
    const auto error = thrown_by([&] {
      tcp::dial(endpoint, tcp_secret, {}, {Deadline(std::chrono::seconds(20)), check});
    });
    EXPECT_EQ(error.code, ErrorCode::aborted) << error.text;
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));  // between attempts it would take 15
  }
}

// A listener takes as many strangers as there are ranks to come, and some.
TEST(TcpDial, IsOneConnectionAnAttempt) {
  const auto listener = bootstrap::listen_at({"127.0.0.1", 0});
  const Deadline within_one_attempt(std::chrono::milliseconds(100));
  EXPECT_THROW(tcp::dial(bootstrap::local_endpoint(listener.get()), tcp_secret, {}, within_one_attempt),
               Error);
  EXPECT_TRUE(bootstrap::accept_from(listener.get()));
  EXPECT_FALSE(bootstrap::accept_from(listener.get()));
}

TEST(TcpDial, TriesAgainWhereNobodySpeaks) {
  const auto listener = bootstrap::listen_at({"127.0.0.1", 0});
  const Deadline within_two(std::chrono::milliseconds(600));
  const auto error =
      thrown_by([&] { tcp::dial(bootstrap::local_endpoint(listener.get()), tcp_secret, {}, within_two); });
  EXPECT_EQ(error.code, ErrorCode::timeout);
  EXPECT_EQ(error.text.find("rank"), std::string::npos) << "of which numbering? " << error.text;
  for (const bool more : {true, true, false})
    EXPECT_EQ(static_cast<bool>(bootstrap::accept_from(listener.get())), more);
}

// Its rank tries again; a closed connection would pass for a lost rank.
TEST(TcpInbox, GivesOutNoConnectionThatWasGivenUp) {
  tcp::Inbox inbox;
  const auto file = [&](int channel) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    inbox.file(1, channel, 0, FileDescriptor(ends[0]));
    return FileDescriptor(ends[1]);
  };
  file(0);
  EXPECT_FALSE(inbox.take(1, 0, 0));
  file(1);
  EXPECT_FALSE(inbox.open(1, 1, 0));
  const auto kept = file(2);
  EXPECT_TRUE(inbox.take(1, 2, 0));
}

TEST(TcpFork, AChildNeitherDisturbsNorKeepsAlive) {
  auto listeners = listeners_at("127.0.0.1", 2);
  auto ranks = tcp_over(listeners, local_groups(2));
  pass(*ranks[0], *ranks[1], 0, 1, 0, 1);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ranks.clear();
    listeners.clear();
    char byte = 0;
    ::close(pipe[1]);
    ::_exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);  // until the parent has seen what it wants
  }
  for (Tag tag = 2; tag < 10; ++tag) pass(*ranks[0], *ranks[1], 0, 1, static_cast<int>(tag % 2), tag);
  ranks[0].reset();
  std::byte byte{};
  const Deadline deadline(std::chrono::seconds(10));
  EXPECT_THROW(
      {
        while (!deadline.passed() && !ranks[1]->receiver(0, 0).try_receive(&byte, 1, 99))
          ranks[1]->wait(std::chrono::milliseconds(10));
      },
      Error);
  ::close(pipe[0]);
  ::close(pipe[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The listener's thread may be in the middle of it.
TEST(TcpFork, AChildLeavesAnInboxAsItIs) {
  const auto listeners = listeners_at("127.0.0.1", 1);
  auto inbox = listeners[0]->open_inbox(1);
  const int event = inbox->event();
  bootstrap::test::Child child([&] {
    inbox.reset();
    return ::fcntl(event, F_GETFD) >= 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  inbox.reset();
  EXPECT_LT(::fcntl(event, F_GETFD), 0);
}

}  // namespace

}  // namespace tutti::transport::testing
