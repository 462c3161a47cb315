// One end of a link, whose other end is played: what it says over the control connection, and when.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "transport/verbs/control.hpp"
#include "transport/verbs/link.hpp"
#include "verbs_fake.hpp"

namespace tutti::transport::testing {

namespace {

using verbs::ControlKind;

class VerbsLink : public ::testing::Test {
 protected:
  VerbsLink() {
    shared_.verbs = fake_;
    shared_.rank = 0;
    shared_.agreed = {.message_bytes = 1024, .stripe_from = 1 << 20};
    shared_.poll = [] {};
    shared_.looks = PrivateDescriptor(FileDescriptor(::epoll_create1(EPOLL_CLOEXEC)));
    shared_.rails.push_back(open_rail(0));
    shared_.domains.push_back(shared_.rails[0]->domain());
    shared_.owners.resize(1);
    shared_.pool = std::make_unique<verbs::SlotPool>(*fake_, shared_.domains, shared_.agreed.message_bytes,
                                                     shared_.traffic.memory_held);
    shared_.cache = std::make_unique<verbs::MemoryCache>(*fake_, shared_.domains);
  }
  std::unique_ptr<verbs::Rail> open_rail(int rank) {
    const auto device = verbs::discover(*fake_, "/nonexistent").at(static_cast<std::size_t>(rank));
    const verbs::Port& port = device.ports.at(0);
    return std::make_unique<verbs::Rail>(*fake_, verbs::ChosenPort{device, port},
                                         verbs::ChosenGid{port.gids.at(0), ""}, shared_.options, rank, 1);
  }
  void begin() {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
      throw std::runtime_error("no sockets");
    played_ = verbs::Control(PrivateDescriptor(FileDescriptor(sockets[1])));
    link_.begin(PrivateDescriptor(FileDescriptor(sockets[0])), true);
  }
  /// The other end introduces itself.
  void hear_hello() {
    verbs::Hello hello;
    hello.rails = 1;
    hello.addresses[0] = their_pair_->address();
    played_.send(ControlKind::hello, hello);
    link_.advance();
  }
  /// rdma_cm has connected the queue pair.
  void connect() { link_.managed_outcome(0, {shared_.owners[0].begin()->first, ""}); }
  /// The control connection wakes whoever sleeps.
  [[nodiscard]] bool wakes() const {
    pollfd looks{shared_.looks.get(), POLLIN, 0};
    return ::poll(&looks, 1, 0) > 0;
  }
  /// What the link has said since the last call.
  std::vector<ControlKind> said() {
    std::vector<ControlKind> kinds;
    played_.advance([&](ControlKind kind, std::span<const std::byte>) { kinds.push_back(kind); });
    return kinds;
  }

  std::shared_ptr<verbs::Verbs> fake_ = fake_verbs(fake_devices(2));
  verbs::Shared shared_;
  std::unique_ptr<verbs::Rail> their_rail_ = open_rail(1);
  std::unique_ptr<verbs::QueuePair> their_pair_ = their_rail_->make_pair(0);
  verbs::Control played_;
  verbs::Link link_{shared_, 1, 1};
};

using Kinds = std::vector<ControlKind>;

TEST_F(VerbsLink, ReadyIsSaidWhereQueuePairsAreConnectedBeforeTheHello) {
  begin();
  connect();
  EXPECT_EQ(said(), Kinds{ControlKind::hello});
  hear_hello();
  EXPECT_EQ(said(), Kinds{ControlKind::ready});
}

TEST_F(VerbsLink, ReadyIsSaidOnce) {
  begin();
  hear_hello();
  EXPECT_EQ(said(), (Kinds{ControlKind::hello, ControlKind::ready}));
  connect();
  link_.retry();
  EXPECT_EQ(said(), Kinds{});
}

// Whoever has other peers would never sleep again.

TEST_F(VerbsLink, WhatAFailedLinkDoesNotReadWakesNobody) {
  begin();
  hear_hello();
  played_.send(ControlKind::stay, verbs::Stay{});
  EXPECT_TRUE(wakes());
  link_.fail(Error(ErrorCode::system, "a test"));
  EXPECT_FALSE(wakes());
}

TEST_F(VerbsLink, WhatALinkThatFailedBeforeItBeganDoesNotReadWakesNobody) {
  link_.fail(Error(ErrorCode::system, "a test"));
  begin();
  played_.send(ControlKind::stay, verbs::Stay{});
  EXPECT_FALSE(wakes());
}

TEST_F(VerbsLink, APeerThatHasClosedWakesOnce) {
  begin();
  hear_hello();
  played_ = verbs::Control();
  EXPECT_TRUE(wakes());
  link_.advance();
  EXPECT_TRUE(link_.finished());
  EXPECT_FALSE(wakes());
}

// What it sent before may have come since completions were last taken.
TEST_F(VerbsLink, APeerThatHasClosedIsLostOnceCompletionsWereTakenAgain) {
  begin();
  hear_hello();
  played_ = verbs::Control();
  link_.advance();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the processor was another's
  EXPECT_NO_THROW(link_.check());
  shared_.now = Clock::now();
  EXPECT_THROW(link_.check(), Error);
}

}  // namespace

}  // namespace tutti::transport::testing
