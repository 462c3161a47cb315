// Work: several under way, waited for in any order, or never.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <future>
#include <memory>
#include <random>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

class Asynchronous : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Asynchronous,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(1, 2, 4)),
                         transport_and_ranks);

struct Started {
  std::unique_ptr<Trial> trial;
  Work work;
};

std::vector<Started> start_all(Communicator& comm) {
  std::vector<Started> started;
  std::uint32_t seed = 20;
  for (const Operation operation : data_operations())
    for (const std::size_t count : {1, 700, 30'000}) {
      Exercise exercise{.operation = operation, .count = count, .seed = ++seed};
      if (reduces(operation) && count == 700)
        for (Rank r = 0; r < comm.size(); ++r) exercise.factors.push_back(0.5 + r);
      auto trial = std::make_unique<Trial>(exercise, comm.rank(), comm.size());
      Async async = comm.async();
      Work work = issue(async, trial->call());
      started.push_back({std::move(trial), std::move(work)});
    }
  return started;
}

TEST_P(Asynchronous, ManyWaitedForInAnyOrder) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        auto started = start_all(comm);
        std::shuffle(started.begin(), started.end(), std::mt19937(static_cast<unsigned>(comm.rank())));
        for (auto& one : started) {
          one.work.wait();
          EXPECT_EQ(one.trial->wrong(), "");
          EXPECT_TRUE(one.work.test());
          one.work.wait();  // again
        }
      },
      over(transport));
}

TEST_P(Asynchronous, TestLoopsGetDone) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        auto started = start_all(comm);
        while (!std::ranges::all_of(started, [](Started& one) { return one.work.test(); }))
          std::this_thread::yield();
        for (auto& one : started) EXPECT_EQ(one.trial->wrong(), "");
      },
      over(transport));
}

TEST_P(Asynchronous, DestroyedOrReplacedWithoutAWaitIsWaitedFor) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Trial first({.count = 50'000}, comm.rank(), comm.size()),
            second({.count = 9}, comm.rank(), comm.size());
        Async async = comm.async();
        {
          Work work = issue(async, first.call());
          work = issue(async, second.call());
          EXPECT_EQ(first.wrong(), "");
        }
        EXPECT_EQ(second.wrong(), "");
        Work moved_from = issue(async, first.call());
        Work moved_to = std::move(moved_from);
        moved_to.wait();
        moved_from
            .wait();  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): refers to nothing
        Work().wait();
      },
      over(transport));
}

TEST_P(Asynchronous, BlockingCallsFollowThoseUnderWay) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (std::uint32_t round = 0; round < 5; ++round) {
          const Trial outstanding({.operation = Operation::all_to_all, .count = 20'000, .seed = round},
                                  comm.rank(), comm.size());
          Async async = comm.async();
          Work work = issue(async, outstanding.call());
          expect_right(comm, {.operation = Operation::all_reduce, .count = 1000, .seed = round});
          comm.barrier();
          const Rank next = (comm.rank() + 1) % comm.size(),
                     previous = (comm.rank() + comm.size() - 1) % comm.size();
          const std::int32_t mine = comm.rank();
          std::int32_t theirs = -1;
          Group group = comm.group();
          group.send(std::span(&mine, 1), next);
          group.receive(std::span(&theirs, 1), previous);
          group.run();
          EXPECT_EQ(theirs, previous);
          work.wait();
          EXPECT_EQ(outstanding.wrong(), "");
        }
      },
      over(transport));
}

// Odd ranks wait for the second communicator first. Nobody may need the other to return first.
TEST_P(Asynchronous, TwoCommunicatorsInOppositeOrders) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Communicator other = comm.duplicate();
        for (std::uint32_t round = 1; round < 6; ++round) {
          const Trial a({.count = 40'000, .seed = round}, comm.rank(), comm.size());
          const Trial b({.operation = Operation::all_gather, .count = 30'000, .seed = round}, comm.rank(),
                        comm.size());
          Async first = comm.async(), second = other.async();
          if (comm.rank() % 2 == 0) {
            Work wa = issue(first, a.call()), wb = issue(second, b.call());
            wa.wait();
            wb.wait();
          } else {
            Work wb = issue(second, b.call()), wa = issue(first, a.call());
            wb.wait();
            wa.wait();
          }
          EXPECT_EQ(a.wrong(), "");
          EXPECT_EQ(b.wrong(), "");
          // The same with one asynchronous and one blocking.
          if (comm.rank() % 2 == 0) {
            Work wa = issue(first, a.call());
            issue(other, b.call());
            wa.wait();
          } else {
            Work wb = issue(second, b.call());
            issue(comm, a.call());
            wb.wait();
          }
          EXPECT_EQ(a.wrong() + b.wrong(), "");
        }
      },
      over(transport));
}

TEST_P(Asynchronous, AWaitThatTimesOutCanBeRepeated) {
  const auto [transport, ranks] = GetParam();
  if (ranks == 1) return;
  run_local(
      ranks,
      [](Communicator& comm) {
        const Trial trial({.count = 10'000}, comm.rank(), comm.size());
        Async async = comm.async();
        std::int32_t token = 0;
        if (comm.rank() == 0) {
          Work work = issue(async, trial.call());
          const auto thrown = thrown_by([&] { work.wait(30ms); });
          EXPECT_EQ(thrown.code, ErrorCode::timeout);
          EXPECT_NE(thrown.text.find("all_reduce(10000 x float32"), std::string::npos) << thrown.text;
          ASSERT_FALSE(thrown.ranks.empty()) << thrown.text;
          for (const Rank r : thrown.ranks) {
            EXPECT_NE(r, 0);
            EXPECT_NE(thrown.text.find("rank " + std::to_string(r)), std::string::npos) << thrown.text;
          }
          EXPECT_FALSE(work.test());
          for (Rank r = 1; r < comm.size(); ++r) comm.send(std::span<const std::int32_t>(&token, 1), r);
          work.wait();
          work.wait(1ms);
        } else {
          comm.receive(std::span(&token, 1), 0);
          issue(comm, trial.call());
        }
        EXPECT_EQ(trial.wrong(), "");
      },
      over(transport));
}

// Plans of v-forms are made in the memory of earlier ones, unless some call still runs by those; tasks are
// those of earlier calls. Other counts in each call, more calls under way than are kept.
TEST_P(Asynchronous, VFormsWithOtherCountsInEachCall) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Async async = comm.async();
        std::uint32_t seed = 0;
        const auto trial_of = [&](Operation operation) {
          return std::make_unique<Trial>(Exercise{.operation = operation, .count = 300, .seed = ++seed},
                                         comm.rank(), comm.size());
        };
        for (const Operation operation :
             {Operation::all_to_all_v, Operation::all_gather_v, Operation::reduce_scatter_v}) {
          for (int call = 0; call < 20; ++call) {
            const auto trial = trial_of(operation);
            issue(comm, trial->call());
            EXPECT_EQ(trial->wrong(), "");
          }
          for (int round = 0; round < 3; ++round) {
            std::vector<Started> started;
            for (int call = 0; call < 12; ++call) {
              auto trial = trial_of(operation);
              Work work = issue(async, trial->call());
              started.push_back({std::move(trial), std::move(work)});
            }
            const auto last = trial_of(operation);
            issue(comm, last->call());
            EXPECT_EQ(last->wrong(), "");
            for (auto& one : started) {
              one.work.wait();
              EXPECT_EQ(one.trial->wrong(), "");
            }
          }
        }
      },
      over(transport));
}

TEST_P(Asynchronous, ABlockingGroupComesAfterWhatIsUnderWay) {
  const auto [transport, ranks] = GetParam();
  if (ranks == 1) return;
  run_local(
      ranks,
      [](Communicator& comm) {
        const Rank next = (comm.rank() + 1) % comm.size(),
                   previous = (comm.rank() + comm.size() - 1) % comm.size();
        const std::vector<int> first(300'000, 10 + comm.rank()), second(300'000, 20 + comm.rank());
        std::vector<int> first_in(first.size()), second_in(second.size());
        const Trial early({.count = 300'000, .seed = 1}, comm.rank(), comm.size()),
            late({.operation = Operation::all_to_all, .count = 100'000, .seed = 2}, comm.rank(), comm.size());
        Async async = comm.async();
        Work sum = issue(async, early.call());
        Work sent = async.send(first, next), received = async.receive(first_in, previous);
        Group group = comm.group();
        issue(group, late.call());
        group.send(second, next);
        group.receive(second_in, previous);
        group.run();
        EXPECT_EQ(late.wrong(), "");
        EXPECT_EQ(second_in, std::vector<int>(second.size(), 20 + previous));
        sum.wait();
        sent.wait();
        received.wait();
        EXPECT_EQ(early.wrong(), "");
        EXPECT_EQ(first_in, std::vector<int>(first.size(), 10 + previous));
      },
      over(transport));
}

// A scaled sum needs a copy of its input. Tasks are kept for other calls; what they allocated is not.
TEST(Asynchronously, MemoryOfLongCallsIsGivenBack) {
  if (sanitized) GTEST_SKIP() << "mallinfo2 knows nothing of a sanitizer's memory";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::vector<float> in(std::size_t{4} << 20, 1.0F);
    std::vector<float> out(in.size());
    const auto held = [] {
      const auto info = ::mallinfo2();
      return info.uordblks + info.hblkhd;
    };
    const auto before = held();
    for (int call = 0; call < 4; ++call) comm.async().all_reduce(in, out, scaled_sum(2)).wait();
    EXPECT_LT(held(), before + in.size() * sizeof(float) / 2);
    Group group = comm.group();
    group.all_reduce(in, out, scaled_sum(2));
    group.run();
    EXPECT_LT(held(), before + in.size() * sizeof(float) / 2);
    EXPECT_EQ(out.back(), 4.0F);
  });
}

// A rank that waits for its last call first, while the first is held up, must not take what arrives for
// another call.
TEST_P(Asynchronous, TheLastCallIsWaitedForWhileTheFirstIsHeldUp) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        if (comm.rank() == 1) std::this_thread::sleep_for(200ms);
        auto started = start_all(comm);
        for (std::size_t i = started.size(); i-- > 0;) {
          started[i].work.wait();
          EXPECT_EQ(started[i].trial->wrong(), "");
        }
      },
      over(transport));
}

// More than a socket takes at once: the rest goes when somebody looks.
TEST(Asynchronously, WhatWaitsForASocketGoesOnByTestsAndByWaitsForOthers) {
  run_local(
      2,
      [](Communicator& comm) {
        Communicator other = comm.duplicate();
        std::vector<float> data(std::size_t{4} << 20, static_cast<float>(comm.rank()));
        for (const bool by_test : {true, false}) {
          if (comm.rank() == 0) {
            Work work = comm.async().send(data, 1);
            while (by_test && !work.test()) std::this_thread::yield();
            other.barrier();
          } else {
            std::this_thread::sleep_for(300ms);
            comm.receive(data, 0);
            other.barrier();
            EXPECT_EQ(data.back(), 0);
          }
        }
      },
      over("tcp", 10s));
}

// Another communicator keeps this rank busy for much longer than sockets, which are full at first, need.
TEST(Asynchronously, WhatWaitsForASocketGoesOnWhileAnotherCommunicatorMoves) {
  run_local(
      2,
      [](Communicator& comm) {
        std::vector<float> data(std::size_t{8} << 20, static_cast<float>(comm.rank()));
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(100ms);
          comm.receive(data, 0);
          EXPECT_EQ(data.back(), 0);
          return;
        }
        const std::vector<float> in(std::size_t{4} << 20);
        std::vector<float> out(in.size());
        Work busy;
        Communicator alone(UniqueId{}, 0, 1);  // its end is that of its work
        Group group = alone.group();
        for (int call = 0; call < 1000; ++call) group.all_reduce(in, out);
        busy = group.start();
        comm.send(data, 1);
        EXPECT_FALSE(busy.test());
      },
      over("tcp", 20s));
}

// A trial of two ways that ends while a later call is under way already on one rank, and not on the other.
TEST(Asynchronously, CallsTakeTheWayThatWasDecidedBeforeThem) {
  run_processes(2, over("shm", 10s), [](Communicator& comm) {
    const bool late = comm.rank() == 1;
    std::vector<float> in(65536, static_cast<float>(comm.rank() + 1)), out(in.size()), next(in.size());
    for (int i = 1; i <= 30; ++i) {  // the 21st to 30th are measured; these seem slow the first way
      if (late && i > 20 && i <= 25) std::this_thread::sleep_for(2ms);
      comm.all_reduce(in, out);
    }
    if (late) std::this_thread::sleep_for(100ms);
    Work decides = comm.async().all_reduce(in, out);
    if (late) decides.wait();
    Work follows = comm.async().all_reduce(in, next);
    decides.wait();
    follows.wait();
    EXPECT_EQ(out[5], 3);
    EXPECT_EQ(next[5], 3);
  });
}

// Rank 1 blocks in what rank 0 started first, and on another communicator.
TEST(Asynchronously, TestsMoveOtherCommunicators) {
  Options options;
  options.timeout = 10s;
  run_local(
      2,
      [](Communicator& comm) {
        Communicator other = comm.duplicate();
        const std::vector<std::int32_t> one(std::size_t{1} << 20, 1);  // more than is sent at once
        std::vector<std::int32_t> sum(one.size()), other_sum(one.size());
        if (comm.rank() == 1) {
          comm.all_reduce(std::span(one), std::span(sum));
          other.all_reduce(std::span(one), std::span(other_sum));
        } else {
          Work first = comm.async().all_reduce(std::span(one), std::span(sum));
          Work second = other.async().all_reduce(std::span(one), std::span(other_sum));
          while (!second.test()) std::this_thread::yield();
          first.wait();
        }
        EXPECT_EQ(sum, std::vector<std::int32_t>(one.size(), 2));
        EXPECT_EQ(other_sum, sum);
      },
      options);
}

TEST(Asynchronously, TestsFindOutWhatWaitsWould) {
  for (const char* transport : {"shm", "tcp"})
    for (const bool aborts : {true, false}) {  // first the one with time to choose algorithms, once a process
      std::promise<void> found;
      run_local(
          2,
          [&](Communicator& comm) {
            float value = 1;
            comm.barrier();
            if (comm.rank() == 1) {
              if (aborts) comm.abort("enough");
              found.get_future().wait_for(20s);
              return;
            }
            const auto thrown = thrown_by([&] {
              Work work = comm.async().all_reduce(std::span(&value, 1));
              for (const Deadline deadline(20s); !work.test() && !deadline.passed();)
                std::this_thread::yield();
            });
            found.set_value();
            EXPECT_EQ(thrown.code, aborts ? ErrorCode::aborted : ErrorCode::timeout) << thrown.text;
          },
          over(transport, aborts ? 30s : 1s));
    }
}

// Waiting costs no sleep a step: a hundred thousand elements in a hundred calls take seconds if each step
// sleeps.
TEST(Asynchronously, ProgressIsNotBoundToTheClock) {
  run_local(
      2,
      [](Communicator& comm) {
        const Trial trial({.operation = Operation::all_gather, .count = 2'000'000}, comm.rank(), comm.size());
        Async async = comm.async();
        const auto start = std::chrono::steady_clock::now();
        issue(async, trial.call()).wait();
        EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
        EXPECT_EQ(trial.wrong(), "");
      },
      over("tcp"));
}

TEST(Asynchronously, CountsAndDisplacementsMayChangeOnceTheyWereGiven) {
  run_local(2, [](Communicator& comm) {
    constexpr std::size_t count = 50'000;
    const std::vector<int> in(2 * count, comm.rank());
    std::vector<int> exchanged(2 * count), gathered(2 * count), expected(count, 0);
    expected.insert(expected.end(), count, 1);
    std::vector<std::size_t> counts{count, count}, displacements{0, count};
    Work exchange = comm.async().all_to_all_v(in, counts, displacements, exchanged, counts, displacements);
    Group group = comm.group();
    group.all_gather_v(std::span(in).first(count), gathered, counts, displacements);
    counts.assign(2, 1);
    displacements.assign(2, 0);
    Work gather = group.start();
    exchange.wait();
    gather.wait();
    EXPECT_EQ(exchanged, expected);
    EXPECT_EQ(gathered, expected);
  });
}

TEST(Asynchronously, AWorkThatOutlivesItsCommunicatorSaysSo) {
  run_local(
      2,
      [](Communicator& comm) {
        std::vector<float> data(10'000);
        Work work;
        {
          Communicator other = comm.duplicate();
          if (comm.rank() == 0) work = other.async().all_reduce(std::span(data));
          comm.barrier();
        }
        if (comm.rank() == 0) {
          const auto thrown = thrown_by([&] { work.wait(); });
          EXPECT_EQ(thrown.code, ErrorCode::aborted);
          EXPECT_THAT(thrown.text, testing::HasSubstr("all_reduce(10000 x float32, sum) #1 on rank 0: "));
        }
        comm.barrier();
      },
      over("shm"));
}

}  // namespace
}  // namespace tutti::test
