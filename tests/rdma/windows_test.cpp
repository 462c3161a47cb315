// Windows among the nodes of the lab: which way they take, and what breaks under them.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <span>
#include <vector>

#include "communicator/ranks.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

std::vector<std::uint8_t> patterns(Rank rank, std::size_t bytes) {
  std::vector<std::uint8_t> all(bytes);
  std::uint8_t* const to = all.data();
  for (std::size_t i = 0; i < bytes; ++i)
    to[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 31 + 1);
  return all;
}

// At once: this processor is emulated.
bool same(std::span<const std::uint8_t> got, std::span<const std::uint8_t> wanted) {
  return std::memcmp(got.data(), wanted.data(), wanted.size()) == 0;
}

class LabWindows : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(3, 1); !lacks.empty()) GTEST_SKIP() << lacks;
  }
  void TearDown() override {
    if (!IsSkipped()) fault("1 none");
  }
};

// Two ranks a node: every rank writes to all others, and reads what they wrote from them.
TEST_F(LabWindows, NodesByRdmaAndWithinANodeByMemory) {
  constexpr std::size_t part = 600'000;
  const long before = counted(3, 1, "sent_pkts");
  expect_well(job(6, 3, 1), [](Communicator& comm) {
    auto buffer = comm.allocate<std::uint8_t>(part * 8);
    const std::span<const std::uint8_t> memory = buffer.span();
    const std::size_t me = static_cast<std::size_t>(comm.rank());
    const std::vector<std::uint8_t> mine = patterns(comm.rank(), part);
    std::memcpy(&buffer[part * 6], mine.data(), part);
    Window window(comm, buffer.span());
    for (Rank r = 0; r < comm.size(); ++r) {
      const bool same_node = r / 2 == comm.rank() / 2;
      EXPECT_THAT(window.path(r), HasSubstr(same_node ? "memory" : "RDMA WRITE and READ via rx"));
      window.put(r, {.local = part * 6, .remote = part * me, .bytes = part}, {.notify = 1});
      window.fetch_add(r, part * 7, 1);
    }
    for (Rank r = 0; r < comm.size(); ++r) {
      window.wait_notification(1, 1, r);
      ASSERT_TRUE(same(memory.subspan(part * static_cast<std::size_t>(r)), patterns(r, part))) << r;
    }
    comm.barrier();
    for (Rank r = 0; r < comm.size(); ++r) {
      // Its atomics by ways that differ made one sum.
      window.get(r, {.local = part * 7 + 8, .remote = part * 7, .bytes = 8}).wait();
      EXPECT_EQ(buffer[part * 7 + 8], 6);
      window.get(r, {.local = part * 7 + 16, .remote = part * me, .bytes = part / 2}).wait();
      ASSERT_TRUE(same(memory.subspan(part * 7 + 16), std::span(mine).first(part / 2))) << r;
    }
    comm.barrier();
  });
  // 24 pairs of ranks on different nodes, 147 packets of 4096 bytes each, and half of it back.
  EXPECT_GT(counted(3, 1, "sent_pkts") - before, 24 * 220);
}

TEST_F(LabWindows, AKilledRankIsNamedAndTheOthersGoOn) {
  auto codes = run_on_nodes(job(3, 3, 1), [](Communicator& comm) {
    auto buffer = comm.allocate<std::uint64_t>(100'000);
    Window window(comm, buffer.span());
    const Block all{.local = 0, .remote = 0, .bytes = buffer.size() * 8};
    comm.barrier();
    if (comm.rank() == 1) {
      window.wait_notification(0, 3, 0);
      ::kill(::getpid(), SIGKILL);
    }
    if (comm.rank() == 0) {
      const auto start = Clock::now();
      auto failed_at = start;
      const auto thrown = thrown_by([&] {
        for (;;) {
          failed_at = Clock::now();
          window.put(1, all, {.notify = 0}).wait();
        }
      });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{1}) << thrown.text;
      EXPECT_LT(Clock::now() - failed_at, 1500ms);
    }
    const Rank other = 2 - comm.rank();
    window.put(other, all, {.notify = 3});
    window.wait_notification(3, 1, other);
    window.flush(other);
    window.notify(other, 4);
    window.wait_notification(4, 1, other);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, -SIGKILL, 0}));
}

TEST_F(LabWindows, ABlackHoleEndsATransferWithinTheBudget) {
  Job two = job(2, 2, 1);
  two.variables = {{"TUTTI_VERBS_TIMEOUT", "16"}, {"TUTTI_VERBS_RETRIES", "3"}};  // 1.1 s
  const Rise gave_up(1, 1, "retry_exceeded_err");
  expect_well(two, [](Communicator& comm) {
    auto buffer = comm.allocate<std::uint64_t>(100'000);
    Window window(comm, buffer.span());
    const Block all{.local = 0, .remote = 0, .bytes = buffer.size() * 8};
    if (comm.rank() == 0) {
      window.put(1, all).wait();
      fault("1 loss 100%");
      const auto start = Clock::now();
      const auto late = thrown_by([&] { window.put(1, all, {.deadline = 200ms}).wait(); });
      EXPECT_EQ(late.code, ErrorCode::timeout) << late.text;
      EXPECT_THAT(late.text, HasSubstr("its deadline has passed"));
      const auto thrown = thrown_by([&] { window.get(1, all).wait(); });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
      EXPECT_THAT(thrown.text, HasSubstr("no answer from the peer within"));
      EXPECT_LT(Clock::now() - start, 10s);
      fault("1 none");
    }
    comm.barrier();
  });
  EXPECT_GT(gave_up.so_far(), 0);
}

}  // namespace
}  // namespace tutti::test
