// Whether ranks read each other's plain memory, by cross-memory attach: wherever the kernel permits it to all
// of them, and nowhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "refused_calls.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

constexpr std::size_t words = 40'003;  ///< so long that attach would be tried

std::string explained(Communicator& comm) {
  const std::vector<float> in(words);
  std::vector<float> out(words);
  return comm.explain({.operation = Operation::all_to_all,
                       .type = DataType::float32,
                       .in = in.data(),
                       .out = out.data(),
                       .count = words / static_cast<std::size_t>(comm.size())});
}

TEST(Attach, IsOfferedWhereTheKernelPermitsIt) {
  const bool permitted = kernel_permits_attach();
  run_processes(3, over("shm"), [&](Communicator& comm) {
    const std::string text = explained(comm);
    EXPECT_EQ(text.find("  plain memory: ") != std::string::npos, permitted) << text;
    EXPECT_THAT(text, HasSubstr(permitted ? ", cross-memory attach permitted\n"
                                          : ", cross-memory attach not permitted\n"));
  });
}

/// From now on the kernel refuses it to this process. False: such a rule cannot be made here.
bool forbid_attach() {
  try {
    refuse_calls(__NR_process_vm_readv, EPERM);
    refuse_calls(__NR_process_vm_writev, EPERM);
  } catch (const std::system_error&) {
    return false;
  }
  char from = 'a', to = 'b';
  const iovec mine{&to, 1}, theirs{&from, 1};
  return ::process_vm_readv(::getpid(), &mine, 1, &theirs, 1, 0) == -1 && errno == EPERM;
}

void expect_right_operations(Communicator& comm) {
  for (std::uint32_t seed = 1; seed < 3; ++seed)
    for (const Operation operation : data_operations())
      for (const bool in_place : {false, true})
        if (!in_place || can_be_in_place(operation))
          expect_right(
              comm,
              {.operation = operation, .count = words / 2, .in_place = in_place, .root = 1, .seed = seed});
}

void expect_right_messages(Communicator& comm) {
  const Rank next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<Rank> sent(words), received(words), expected(words);
  for (int number = 0; number < 4; ++number) {
    std::iota(sent.begin(), sent.end(), comm.rank() + number);
    std::iota(expected.begin(), expected.end(), previous + number);
    Group group = comm.group();
    group.send(std::span<const Rank>(sent), next);
    group.receive(std::span(received), previous);
    group.run();
    EXPECT_EQ(received, expected) << number;
  }
}

void expect_right_window(Communicator& comm) {
  std::vector<std::uint64_t> memory(2 * words);
  const auto mine = std::span(memory).first(words), theirs = std::span(memory).last(words);
  std::iota(mine.begin(), mine.end(), 1000U * static_cast<unsigned>(comm.rank()));
  Window window(comm, std::span(memory));
  const Rank next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  EXPECT_THAT(window.path(next), StartsWith("tcp to "));
  EXPECT_THAT(window.path(next), HasSubstr("the kernel permits no cross-memory attach"));
  window.put(next, {.local = 0, .remote = mine.size_bytes(), .bytes = mine.size_bytes()}, {.notify = 0});
  window.wait_notification(0, 1, previous);
  std::vector<std::uint64_t> expected(words);
  std::iota(expected.begin(), expected.end(), 1000U * static_cast<unsigned>(previous));
  EXPECT_TRUE(std::ranges::equal(theirs, expected));
  window.flush();
  comm.barrier();
  window.get(next, {.local = mine.size_bytes(), .remote = 0, .bytes = mine.size_bytes()}).wait();
  std::iota(expected.begin(), expected.end(), 1000U * static_cast<unsigned>(next));
  EXPECT_TRUE(std::ranges::equal(theirs, expected));
  comm.barrier();
  EXPECT_EQ(window.fetch_add(next, 8, 5), 1000U * static_cast<unsigned>(next) + 1);
  comm.barrier();
}

class AttachForbidden : public testing::TestWithParam<std::pair<const char*, Rank>> {};
INSTANTIATE_TEST_SUITE_P(To, AttachForbidden,
                         testing::Values(std::pair("EveryRank", any_rank), std::pair("OneRank", Rank{1})),
                         [](const auto& row) { return row.param.first; });

TEST_P(AttachForbidden, EverythingGoesWithoutIt) {
  if (Child(+[] { return forbid_attach() ? 0 : 1; }).wait() != 0) GTEST_SKIP() << "no seccomp filters here";
  const Rank whom = GetParam().second;
  run_processes(
      3, over("shm"),
      [](Communicator& comm) {
        const std::string text = explained(comm);
        EXPECT_THAT(text, HasSubstr(", cross-memory attach not permitted\n"));
        EXPECT_THAT(text, Not(HasSubstr("  plain memory: ")));
        expect_right_operations(comm);
        expect_right_messages(comm);
        expect_right_window(comm);
        EXPECT_EQ(comm.stats().bytes_direct, 0U);
        // What is mapped needs no attach.
        const auto a = comm.allocate<float>(3 * words), b = comm.allocate<float>(3 * words);
        const Trial trial({.operation = Operation::all_gather, .count = words}, comm.rank(), comm.size(),
                          reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
        issue(comm, trial.call());
        EXPECT_EQ(trial.wrong(), "");
        EXPECT_GT(comm.stats().bytes_direct, 0U);
        comm.barrier();
      },
      [&](Rank rank) {
        if (whom == any_rank || whom == rank) {
          EXPECT_TRUE(forbid_attach());
        }
      });
}

// As one does that changes its user.
TEST(Attach, AProcessThatClosesItselfLaterIsNotReadAnyMore) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    EXPECT_THAT(explained(comm), HasSubstr(", cross-memory attach permitted\n"));
    if (comm.rank() == 1) {
      EXPECT_EQ(::prctl(PR_SET_DUMPABLE, 0), 0);
    }
    comm.barrier();
    std::vector<Rank> mine(words), theirs(words), all(2 * words);
    for (int number = 0; number < 60; ++number) {  // among which both ways are tried
      std::iota(mine.begin(), mine.end(), number + comm.rank());
      std::iota(theirs.begin(), theirs.end(), number + 1 - comm.rank());
      const auto expected = std::exchange(theirs, std::vector<Rank>(words));
      if (comm.rank() == 1) {
        comm.send(std::span<const Rank>(mine), 0);
      } else {
        comm.receive(std::span(theirs), 1);
        EXPECT_EQ(theirs, expected) << number;
      }
      comm.all_gather(std::span<const Rank>(mine), std::span(all));
      const auto of_other = std::span<const Rank>(all).subspan(comm.rank() == 0 ? words : 0, words);
      EXPECT_TRUE(std::ranges::equal(of_other, expected)) << number;
    }
    EXPECT_EQ(comm.stats().bytes_direct, 0U);
    const Window window(comm, std::span(all));
    EXPECT_THAT(window.path(1 - comm.rank()), StartsWith("tcp to "));
    comm.barrier();
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
