// What first calls would wait for is done when ranks join.
#include <gtest/gtest.h>

#include <thread>

#include "base/deadline.hpp"
#include "base/yield.hpp"
#include "communicator/exercise.hpp"
#include "communicator/page_faults.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

TEST(FirstCalls, MeetNoPageThatIsNotThere) {
  if (sanitized) GTEST_SKIP() << "sanitizers have page faults of their own";
  if (!can_fault_in()) GTEST_SKIP() << "needs Linux 5.14";
  run_processes(4, over("shm"), [](Communicator& comm) {
    long faults = 0;
    for (const Operation operation : data_operations()) {
      const Trial trial({.operation = operation, .count = 2}, comm.rank(), comm.size());
      const Call call = trial.call();
      const long before = page_faults();
      issue(comm, call);
      faults += page_faults() - before;
    }
    EXPECT_LE(faults, 2) << "a page fault or two of each operation's, else";
  });
}

// Whom yields went to while others joined is over with that.
TEST(FirstCalls, YieldAsIfNothingHadBeen) {
  std::jthread([] {
    const Clock::time_point now = Clock::now();
    avoid_yields(now + 1s);
    ASSERT_FALSE(yield_processor(now));
    const Communicator comm(UniqueId::create(), 0, 1);
    EXPECT_TRUE(yield_processor(now));
  }).join();
}

}  // namespace
}  // namespace tutti::test
