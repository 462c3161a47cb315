// Communicators in a child that a rank forks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "base/mappings.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

class Forked : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Forked, testing::Values("shm", "tcp"), transport_name);

TEST_P(Forked, TheChildIsRefusedAndHarmless) {
  run_processes(2, over(GetParam()), [](Communicator& comm) {
    auto buffer = comm.allocate<std::uint8_t>(100'000);
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::uint8_t>(i * 7);
    std::vector<float> data(30'000, 1.0F);
    Work work = comm.async().all_reduce(std::span(data));
    const bool over = work.test();
    Child child([&] {
      if (thrown_by([&] { comm.barrier(); }).code != ErrorCode::forked) return 2;
      if (thrown_by([&] { static_cast<void>(comm.duplicate()); }).code != ErrorCode::forked) return 3;
      if (!over && thrown_by([&] { work.wait(); }).code != ErrorCode::forked) return 4;
      if (thrown_by([&] { static_cast<void>(comm.allocate<float>(1)); }).code != ErrorCode::forked) return 5;
      comm.abort("from the child");
#ifndef __SANITIZE_THREAD__  // which knows no new threads after a fork of several
      // A group of its own.
      run_local(2, [](Communicator& own) { expect_right(own, {.count = 100}); });
#endif
      const auto dropped_buffer = std::move(buffer);
      const Communicator dropped = std::move(comm);
      return testing::Test::HasFailure() ? 6 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
    work.wait();
    EXPECT_EQ(data, std::vector<float>(30'000, 2.0F));
    for (std::size_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], static_cast<std::uint8_t>(i * 7));
    expect_right(comm, {.operation = Operation::all_to_all, .count = 5000});
    auto reached = comm.allocate<float>(10'000);  // the others' memory is not closed to this rank
    std::fill(reached.begin(), reached.end(), 1.0F);
    comm.all_reduce(reached);
    EXPECT_EQ(reached[9'999], 2.0F);
  });
}

// Another thread may be in the middle of anything when the process forks.
TEST(ForkedBesideThreads, TheChildCanDestroyItsCopies) {
  if (sanitized) GTEST_SKIP() << "after a fork of several threads sanitizers' own locks may be held for ever";
  run_processes(2, over("shm"), [](Communicator& comm) {
    Communicator asked = comm.duplicate();
    std::atomic<bool> over{false};
    std::thread asking([&] {
      while (!over) asked.check();
    });
    for (int i = 0; i < 20 && !testing::Test::HasFailure(); ++i) {
      Child child([&] {
        ::alarm(10);  // one that hangs ends
        const Communicator dropped = std::move(comm);
        return 0;
      });
      EXPECT_EQ(child.wait(), 0);
    }
    over = true;
    asking.join();
    expect_right(comm, {.count = 100});
  });
}

// A thread of the parent makes communicators all the time; the child makes its own.
TEST(ForkedBesideThreads, TheChildCanMakeItsOwn) {
  if (sanitized) GTEST_SKIP() << "after a fork of several threads sanitizers' own locks may be held for ever";
  std::atomic<bool> over{false};
  std::thread making([&] {
    while (!over) run_local(2, [](Communicator& comm) { comm.barrier(); });
  });
  for (int i = 0; i < 20 && !testing::Test::HasFailure(); ++i) {
    Child child([&] {
      ::alarm(30);
      run_local(2, [](Communicator& own) { expect_right(own, {.count = 100}); });
      return testing::Test::HasFailure() ? 6 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  over = true;
  making.join();
}

// All data operations, barrier, send and receive, by the way that `to` stands for.
template <class Way>
void expect_forked_operations(Way to, Communicator& comm, const char* way) {
  const auto expect_forked = [&](const Call& call) {
    const auto thrown = thrown_by([&] { static_cast<void>(to(call)); });
    EXPECT_EQ(thrown.code, ErrorCode::forked) << way << ' ' << name(call.operation) << thrown.text;
  };
  for (const Operation operation : data_operations()) {
    const Trial trial({.operation = operation, .count = 10}, comm.rank(), comm.size());
    expect_forked(trial.call());
  }
  float value = 1;
  expect_forked({.operation = Operation::barrier});
  for (const Rank peer : {1 - comm.rank(), comm.rank()}) {
    expect_forked(
        {.operation = Operation::send, .type = DataType::float32, .root = peer, .in = &value, .count = 1});
    expect_forked({.operation = Operation::receive,
                   .type = DataType::float32,
                   .root = peer,
                   .out = &value,
                   .count = 1});
  }
}

struct ForkedCall {
  const char* what;
  std::function<void()> call;
};

void expect_forked_calls(Communicator& comm, void* page) {
  expect_forked_operations([&](const Call& call) { comm.call(call); }, comm, "blocking");
  expect_forked_operations([&](const Call& call) { return comm.async().call(call); }, comm, "asynchronous");
  expect_forked_operations(
      [&](const Call& call) {
        Group group = comm.group();
        group.call(call);
      },
      comm, "grouped");
  const Call barrier{.operation = Operation::barrier};
  const ForkedCall calls[] = {
      {"check", [&] { comm.check(); }},
      {"split", [&] { static_cast<void>(comm.split(0)); }},
      {"split to none", [&] { static_cast<void>(comm.split(-1)); }},
      {"duplicate", [&] { static_cast<void>(comm.duplicate()); }},
      {"allocate", [&] { static_cast<void>(comm.allocate<float>(1)); }},
      {"allocate nothing", [&] { static_cast<void>(comm.allocate<float>(0)); }},
      {"register_memory", [&] { static_cast<void>(comm.register_memory(page, page_bytes())); }},
      {"use", [&] { comm.use(Schedule{}); }},
      {"explain", [&] { static_cast<void>(comm.explain(barrier)); }},
      {"predict", [&] { static_cast<void>(comm.predict(barrier)); }},
      {"a window", [&] { const Window window(comm, {}); }},
  };
  for (const ForkedCall& refused : calls) {
    const auto thrown = thrown_by(refused.call);
    EXPECT_EQ(thrown.code, ErrorCode::forked) << refused.what << ": " << thrown.text;
    EXPECT_NE(thrown.text.find("parent process"), std::string::npos) << refused.what << ": " << thrown.text;
  }
}

// Begun before the fork.
void expect_forked_work(Work& work, Group& group) {
  EXPECT_EQ(thrown_by([&] { work.wait(); }).code, ErrorCode::forked);
  EXPECT_EQ(thrown_by([&] { work.wait(1ms); }).code, ErrorCode::forked);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(work.test()); }).code, ErrorCode::forked);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(group.start()); }).code, ErrorCode::forked);
}

TEST_P(Forked, TheChildIsRefusedEveryCall) {
  run_processes(2, over(GetParam(), 20s), [](Communicator& comm) {
    ::alarm(60);  // a rank that hangs ends
    const Rank other = 1 - comm.rank();
    Communicator part = *comm.split(0, other);
    std::vector<float> sent(1000, 2.0F), received(1000);
    Work work = comm.async().receive(std::span(received), other);
    ASSERT_FALSE(work.test());
    comm.barrier();  // nobody sends before
    Group group = comm.group();
    group.barrier();
    const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(page_bytes(), page_bytes()),
                                                           &std::free);
    Child child([&] {
      ::alarm(30);
      expect_forked_work(work, group);
      for (Communicator* one : {&comm, &part}) {
        expect_forked_calls(*one, page.get());
        one->abort("from the child");
        expect_forked_calls(*one, page.get());  // and not "aborted"
        one->use_default(Collective::all_reduce);
        EXPECT_EQ(one->size(), 2);
        EXPECT_EQ(one->local_size(), 2);
        EXPECT_EQ(one->host(), 0);
        EXPECT_EQ(one->hosts(), 1);
        static_cast<void>(one->stats());
      }
      EXPECT_EQ(part.rank(), other);
      { const Work dropped = std::move(work); }  // waits for nobody
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
    comm.check();
    part.check();
    comm.barrier();  // who has not forked yet shall not find its work done
    comm.send(std::span<const float>(sent), other);
    work.wait();
    EXPECT_EQ(received, sent);
    group.run();
    for (Communicator* one : {&comm, &part}) {
      // Long ones read what others have, unless somebody has closed it.
      for (const Operation operation : data_operations())
        for (const std::size_t count : {10, 5000})
          expect_right(*one, {.operation = operation, .count = count});
    }
  });
}

}  // namespace
}  // namespace tutti::test
