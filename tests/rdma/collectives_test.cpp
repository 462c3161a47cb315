// Communicators whose ranks meet over shared memory within a node and over RDMA between nodes.
#include <gtest/gtest.h>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/sequence.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

/// Ranks of this node by shared memory, all others by RDMA on every rail.
void expect_routes(Communicator& comm, const Job& job) {
  std::int32_t value = 1;
  const Call call{.operation = Operation::all_reduce, .type = DataType::int32, .count = 1};
  Call asked = call;
  asked.in = asked.out = &value;
  const std::string text = comm.explain(asked);
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    const bool near = job.node_of(peer) == job.node_of(comm.rank());
    const auto line = "rank " + std::to_string(peer) + (near ? ": shm: " : ": verbs: ");
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  }
}

/// Packets that each device has sent.
std::vector<long> sent_by_each() {
  std::vector<long> sent;
  for (int node = 0; node < 4; ++node)
    for (int rail = 0; rail < 2; ++rail) sent.push_back(counter(node, rail, "sent_pkts"));
  return sent;
}

class LabCollectives : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(4, 2); !lacks.empty()) GTEST_SKIP() << lacks;
  }
};

TEST_F(LabCollectives, SharedMemoryWithinNodesAndRdmaBetweenThem) {
  const Job eight = job(8, 4, 2);
  const auto before = sent_by_each();
  expect_well(eight, [&](Communicator& comm) {
    expect_routes(comm, eight);
    EXPECT_EQ(comm.local_size(), 2);
    EXPECT_EQ(comm.host(), eight.node_of(comm.rank()));
    EXPECT_EQ(comm.hosts(), 4);
    every_operation(comm, {0, 1000, 40'000});
    run_sequence(comm, 1, 20);
  });
  const auto after = sent_by_each();
  for (std::size_t device = 0; device < after.size(); ++device)
    EXPECT_GT(after[device], before[device] + 500) << "device " << device;
}

// Some nodes have more ranks than others, and none a power of two.
TEST_F(LabCollectives, UnevenNodes) {
  for (const auto& [ranks, nodes] : {std::pair{2, 2}, {3, 2}, {5, 4}, {7, 3}})
    expect_well(job(ranks, nodes, 2), [&](Communicator& comm) {
      every_operation(comm, {1, 5000});
      run_sequence(comm, 2, 20);
    });
}

TEST_F(LabCollectives, OverIpv6) {
  Job six = job(4, 4, 2);
  six.variables = {{"TUTTI_VERBS_GID_INDEX", "2"}};
  const auto before = sent_by_each();
  expect_well(six, [&](Communicator& comm) {
    std::int32_t value = 1;
    Call call{.operation = Operation::all_reduce, .type = DataType::int32, .count = 1};
    call.in = call.out = &value;
    EXPECT_NE(comm.explain(call).find("fd08:"), std::string::npos) << comm.explain(call);
    run_sequence(comm, 4, 10);
  });
  const auto after = sent_by_each();
  for (std::size_t device = 0; device < after.size(); ++device) EXPECT_GT(after[device], before[device]);
}

TEST_F(LabCollectives, LargeMessages) {
  expect_well(job(4, 4, 2), [](Communicator& comm) {
    for (const auto operation : {Operation::all_reduce, Operation::broadcast})
      expect_right(comm, {.operation = operation, .count = std::size_t{4} << 20, .seed = 3});  // 16 MiB
    for (const auto operation : {Operation::all_to_all, Operation::all_gather})
      expect_right(comm, {.operation = operation, .count = std::size_t{1} << 20, .seed = 4});
  });
}

// Each rank receives into slots and copies from there; what it sends from registered memory is not copied.
TEST_F(LabCollectives, RegisteredMemoryIsSentWithoutACopy) {
  expect_well(job(4, 4, 2), [](Communicator& comm) {
    constexpr std::size_t bytes = std::size_t{1} << 20;
    const auto copied_by = [&](const Exercise& exercise, std::byte* in, std::byte* out) {
      const Trial trial(exercise, comm.rank(), comm.size(), in, out);
      const auto before = comm.stats().bytes_copied;
      issue(comm, trial.call());
      EXPECT_EQ(trial.wrong(), "");
      return comm.stats().bytes_copied - before;
    };
    std::vector<std::byte> plain_in(bytes), plain_out(bytes);
    const auto in = comm.allocate<std::uint8_t>(bytes);
    auto* out = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    {
      const auto registration = comm.register_memory(out, bytes);
      for (const auto operation : {Operation::all_to_all, Operation::all_gather}) {
        // In place an all_gather stores nothing itself, and its steps are sends.
        const Exercise exercise{
            .operation = operation, .count = 50'000, .in_place = operation == Operation::all_gather};
        const auto with_copies = copied_by(exercise, plain_in.data(), plain_out.data());
        const auto without = copied_by(exercise, reinterpret_cast<std::byte*>(in.data()), out);
        EXPECT_LT(without, with_copies * 6 / 10) << to_string(exercise);
      }
    }
    // Registered no more: copied, and still right.
    const Exercise in_place{.operation = Operation::all_gather, .count = 50'000, .in_place = true};
    copied_by(in_place, plain_in.data(), out);
    std::free(out);
  });
}

// What a launcher starts, in a process of its own.
TEST(LaunchedRank, RunsEveryOperation) {
  Communicator comm = Communicator::from_environment();
  EXPECT_EQ(comm.size(), 8);
  EXPECT_EQ(comm.local_size(), 2);
  every_operation(comm, {1, 20'000});
  run_sequence(comm, 3, 20);
  EXPECT_GT(comm.stats().messages_sent, 0U);
}

}  // namespace
}  // namespace tutti::test
