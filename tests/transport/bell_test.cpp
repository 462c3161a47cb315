// What wakes a rank that sleeps on shared memory and on the network at once.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "bootstrap/ranks.hpp"
#include "shm_ranks.hpp"
#include "tcp_ranks.hpp"
#include "transport/shm/keyed_socket.hpp"
#include "transport/sleep.hpp"

namespace tutti::transport::testing {

namespace {

using namespace std::chrono_literals;

/// A bell of its own, and a socket of somebody who knows where it is, and no key.
class ShmBell : public ::testing::Test {
 protected:
  static shm::Key new_key() {
    shm::Key key{};
    std::random_device random;
    for (std::byte& byte : key) byte = static_cast<std::byte>(random());
    return key;
  }
  static bool rang(int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
  }
  static int next_descriptor() {
    const FileDescriptor next(::dup(0));
    return next.get();
  }
  /// Whether there was room.
  static bool send_as_stranger(int stranger, int bell, std::size_t bytes) {
    sockaddr_un name{};
    socklen_t length = sizeof name;
    EXPECT_EQ(::getsockname(bell, reinterpret_cast<sockaddr*>(&name), &length), 0);
    const std::vector<std::byte> garbage(bytes);
    return ::sendto(stranger, garbage.data(), bytes, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&name),
                    length) >= 0;
  }

  shm::Key key_ = new_key();
  shm::Bell mine_{key_}, other_{new_key()};
  FileDescriptor stranger_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(ShmBell, WakesWhoeverHasTheKey) {
  ASSERT_GE(mine_.fd(), 0);
  EXPECT_FALSE(rang(mine_.fd()));
  other_.ring(key_);
  EXPECT_TRUE(rang(mine_.fd()));
  EXPECT_FALSE(rang(other_.fd()));
  mine_.clear();
  EXPECT_FALSE(rang(mine_.fd()));
}

TEST_F(ShmBell, NobodyWaitsForWhoDoesNotListen) {
  other_.ring(key_);  // nobody does yet
  ASSERT_GE(mine_.fd(), 0);
  EXPECT_FALSE(rang(mine_.fd()));
  for (int i = 0; i < 10'000; ++i) other_.ring(key_);  // does not look
  mine_ = shm::Bell(new_key());
  other_.ring(key_);  // has left
}

TEST_F(ShmBell, StrangersOnlyWakeItToo) {
  ASSERT_GE(mine_.fd(), 0);
  while (send_as_stranger(stranger_.get(), mine_.fd(), 1)) {
  }
  other_.ring(key_);
  EXPECT_TRUE(rang(mine_.fd()));
  while (rang(mine_.fd())) mine_.clear();
  std::atomic<int> noisy{0};
  std::jthread noise([&](const std::stop_token& stop) {
    for (std::size_t bytes = 0; !stop.stop_requested(); bytes = (bytes + 997) % 50'000)
      noisy += send_as_stranger(stranger_.get(), mine_.fd(), bytes) ? 1 : 0;
  });
  while (noisy < 1000) mine_.clear();
}

TEST_F(ShmBell, WithoutDescriptorsNobodyIsWoken) {
  install_fork_guard();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{static_cast<rlim_t>(next_descriptor()), usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(mine_.fd(), -1);
  other_.ring(key_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_GE(mine_.fd(), 0);
}

TEST_F(ShmBell, IsNotThatOfAChild) {
  ASSERT_GE(mine_.fd(), 0);
  other_.ring(key_);
  bootstrap::test::Child child([this] {
    mine_.clear();
    mine_ = shm::Bell(new_key());
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(rang(mine_.fd()));
  mine_.clear();
  other_.ring(key_);
  EXPECT_TRUE(rang(mine_.fd())) << "the child has closed it";
}

/// Rank 0 sleeps on shared memory and TCP.
class ShmBellOfARank : public ShmBell {
 protected:
  [[nodiscard]] shm::Control& control() const { return static_cast<shm::ShmTransport&>(*shm_[1]).control(0); }
  void send() {
    const std::byte message{};
    ASSERT_TRUE(shm_[1]->sender(0, 0).try_send(&message, 1, 1, false));
    shm_[1]->progress();
  }

  Transports shm_ = shm_ranks(2), tcp_ = tcp_ranks(2);
};

TEST_F(ShmBellOfARank, IsMadeWhereThatIsNotAllItSleepsOn) {
  const int next = next_descriptor();
  Sleep alone({shm_[0].get()});
  alone.prepare();
  alone.wait(1ms);
  EXPECT_EQ(next_descriptor(), next);
  Sleep both({tcp_[0].get(), shm_[0].get()});
  both.prepare();
  EXPECT_EQ(next_descriptor(), next);
  both.wait(1ms);
  EXPECT_NE(next_descriptor(), next);
}

TEST_F(ShmBellOfARank, WhoHasEndedAsleepDisturbsNobody) {
  shm_[0]->prepare_wait();
  std::vector<pollfd> waits;
  EXPECT_TRUE(shm_[0]->add_waits(waits));
  shm_[0].reset();
  EXPECT_EQ(control().sleeping.load(), shm::in_poll);
  send();
  EXPECT_EQ(control().sleeping.load(), shm::awake);
}

TEST_F(ShmBellOfARank, MessagesComeAmongStrangers) {
  shm_[0]->prepare_wait();
  std::vector<pollfd> waits;
  EXPECT_TRUE(shm_[0]->add_waits(waits));
  shm_[0]->end_wait(waits);
  const int bell = waits.at(0).fd;
  std::jthread noise([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) send_as_stranger(stranger_.get(), bell, 100);
  });
  Sleep both({tcp_[0].get(), shm_[0].get()});
  for (int i = 0; i < 200; ++i) {
    std::jthread peer([&] { send(); });
    std::byte message{};
    const Deadline deadline(20s);
    while (!shm_[0]->receiver(1, 0).try_receive(&message, 1, 1)) {
      ASSERT_FALSE(deadline.passed());
      both.prepare();
      both.wait(1ms);
    }
  }
}

}  // namespace

}  // namespace tutti::transport::testing
