// A thread that waits for its launcher, as long as other ranks do not come, beside groups that need none.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <string>
#include <thread>

#include "base/file_descriptor.hpp"
#include "bootstrap/environment.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::bootstrap::test {
namespace {

/// Rank 1 of 2 of a PMI-1 launcher that knows of no rank 0, in a process of its own: the launcher is found
/// once a process. `beside` runs while a thread waits; what it returns is the process's exit code.
int beside_a_waiting_thread(const std::function<int()>& beside) {
  Child child([&] {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return 50;
    const FileDescriptor ours(ends[0]);
    FileDescriptor theirs(ends[1]);
    const std::string answers =
        "cmd=response_to_init rc=0\ncmd=maxes vallen_max=1024\ncmd=my_kvsname kvsname=space\n";
    if (::write(theirs.get(), answers.data(), answers.size()) != static_cast<ssize_t>(answers.size()))
      return 51;
    const Environment environment(
        {{"PMI_FD", std::to_string(ours.get())}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    Thrown thrown;
    std::thread waiting([&] {
      thrown = thrown_by([] { launch_from_environment("", 60s); });
      ::shutdown(ours.get(), SHUT_RDWR);  // where it did not ask, nobody waits for that
    });
    std::string asked;
    for (char one = 0; !asked.ends_with("barrier_in\n") && ::read(theirs.get(), &one, 1) == 1;) asked += one;
    const int code = beside();
    theirs.reset();
    waiting.join();
    return code != 0 || thrown.code == ErrorCode::system ? code : 52;
  });
  return child.wait();
}

int make_a_group() {
  auto sessions = form_group(2);
  leave_all(sessions);
  return testing::Test::HasFailure() ? 1 : 0;
}

TEST(WaitingLauncher, HoldsUpNoOtherGroup) {
  EXPECT_EQ(beside_a_waiting_thread([] {
              const Deadline deadline(30s);
              const int code = make_a_group();
              return deadline.passed() ? 2 : code;
            }),
            0);
}

TEST(WaitingLauncher, HoldsUpNoOtherThreadForLongerThanItHas) {
  EXPECT_EQ(beside_a_waiting_thread([] {
              const Deadline deadline(30s);
              const auto asked = thrown_by([] { launch_from_environment("", 100ms); });
              return asked.code != ErrorCode::timeout ? 2 : deadline.passed() ? 3 : 0;
            }),
            0);
}

TEST(WaitingLauncher, HoldsUpNoChild) {
  if (sanitized) GTEST_SKIP() << "sanitizers do not take a fork beside a thread";
  EXPECT_EQ(beside_a_waiting_thread([] {
              Child child([] {
                ::alarm(30);
                const auto asked = thrown_by([] { launch_from_environment("", 1s); });
                return asked.code == ErrorCode::forked ? make_a_group() : 3;
              });
              return child.wait();
            }),
            0);
}

TEST(WaitingLauncher, HoldsUpNoEnd) {
  EXPECT_EQ(beside_a_waiting_thread([] {
              ::alarm(30);
              std::exit(0);
              return 1;
            }),
            0);
}

}  // namespace
}  // namespace tutti::bootstrap::test
