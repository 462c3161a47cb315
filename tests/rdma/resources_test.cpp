// What communicators over RDMA take from the system, while they live and afterwards.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "collectives/algorithms.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

/// "0: rx0_0: pd 3 cq 2 qp 5 cm_id 0 mr 12 ctx 2 srq 1" of every device, as the kernel counts them.
std::string objects() { return output_of("rdma resource show"); }

int pairs_of(const std::string& device) {
  std::smatch found;
  const auto text = objects();
  return std::regex_search(text, found, std::regex(device + ": .*?qp (\\d+)")) ? std::stoi(found[1]) : -1;
}

long field_of_status(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == name) {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return -1;
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

class LabResources : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(8, 1); !lacks.empty()) GTEST_SKIP() << lacks;
  }
};

TEST_F(LabResources, NothingIsLeftOfTwoHundredCommunicators) {
  constexpr int cycles = 200;
  const auto before = objects();
  expect_well(job(2, 2, 1), [](Communicator& first) {
    struct Held {
      std::ptrdiff_t descriptors;
      long pinned, resident;  ///< KiB
    };
    Held early{};
    for (int k = 0; k < cycles; ++k) {
      Communicator comm = first.duplicate();
      expect_right(comm, {.count = 300, .seed = static_cast<std::uint32_t>(k)});
      first.barrier();
      if (k != 20 && k != cycles - 1) continue;
      const Held held{descriptors(), field_of_status("VmPin:"), field_of_status("VmRSS:")};
      first.barrier();
      if (k == 20) early = held;
      EXPECT_EQ(held.descriptors, early.descriptors);
      EXPECT_EQ(held.pinned, early.pinned);
      EXPECT_LT(held.resident, early.resident + 1024);
    }
  });
  EXPECT_EQ(objects(), before);
}

// Each rank uses all others, then one for longer than a second: the kernel holds the queue pair of that one.
TEST_F(LabResources, IdleQueuePairsAreClosedBeyondTheCap) {
  Job four = job(4, 4, 1);
  four.variables = {{"TUTTI_VERBS_CONNECTED_PEERS", "1"}};
  expect_well(four, [](Communicator& comm) {
    const auto exchange_with = [&](Rank peer) {
      std::int32_t mine = comm.rank(), theirs = -1;
      const auto send = [&] { comm.send(std::span<const std::int32_t>(&mine, 1), peer); };
      if (comm.rank() < peer) send();
      comm.receive(std::span(&theirs, 1), peer);
      if (comm.rank() > peer) send();
      EXPECT_EQ(theirs, peer);
    };
    const auto device = "rx" + std::to_string(comm.rank()) + "_0";
    for (const int distance : {1, 2, 3}) exchange_with(comm.rank() ^ distance);
    EXPECT_EQ(pairs_of(device) - 1, 3);
    EXPECT_EQ(comm.stats().queue_pairs, 3U);
    for (int k = 0; k < 150; ++k) {
      std::this_thread::sleep_for(10ms);
      exchange_with(comm.rank() ^ 1);
    }
    EXPECT_EQ(pairs_of(device) - 1, 1);
    EXPECT_EQ(comm.stats().queue_pairs, 1U);
    EXPECT_GE(comm.stats().queue_pairs_closed, 2U);
    exchange_with(comm.rank() ^ 1);  // so that all have looked before one is made anew
    expect_right(comm, {.operation = Operation::all_to_all, .count = 5000});
  });
}

void add_peers(std::set<Rank>& peers, Collective collective, const std::string& algorithm, Rank rank,
               int ranks) {
  const Schedule schedule = find_algorithm(collective, algorithm)->make(ranks, 0);
  for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)])
    for (const Step& step : lane)
      for (const auto* operands : {&step.sources, &step.sinks})
        for (const Operand& operand : *operands)
          if (operand.kind == Operand::Kind::message) peers.insert(operand.rank);
}

/// What an all_reduce of one number takes, as a communicator's first one does.
std::string first_choice(Communicator& comm) {
  float one = 1, sum = 0;
  const std::string text = comm.explain(
      {.operation = Operation::all_reduce, .type = DataType::float32, .in = &one, .out = &sum, .count = 1});
  std::smatch found;
  return std::regex_search(text, found, std::regex("algorithm (\\w+)")) ? found[1] : std::string("none");
}

// One bidirectional pair a peer that the schedules talk to, in whichever direction; and one of the kernel's.
TEST_F(LabResources, QueuePairsAreThoseOfTheSchedules) {
  struct Use {
    Operation operation;
    Collective collective;
    const char* algorithm;
    std::size_t count;
  };
  constexpr int ranks = 8;
  for (const auto& use : {Use{Operation::all_reduce, Collective::all_reduce, "ring", 5000},
                          Use{Operation::broadcast, Collective::broadcast, "tree", 100},
                          Use{Operation::all_to_all, Collective::all_to_all, "pairwise", 100}}) {
    Job eight = job(ranks, ranks, 1);
    eight.options.algorithm = use.algorithm;
    expect_well(eight, [&](Communicator& comm) {
      expect_right(comm, {.operation = use.operation, .count = use.count});
      comm.barrier();
      const auto pairs = pairs_of("rx" + std::to_string(comm.rank()) + "_0") - 1;
      comm.barrier();
      std::set<Rank> peers;
      add_peers(peers, Collective::barrier, "dissemination", comm.rank(), ranks);
      add_peers(peers, Collective::all_reduce, first_choice(comm), comm.rank(), ranks);
      add_peers(peers, use.collective, use.algorithm, comm.rank(), ranks);
      EXPECT_EQ(pairs, static_cast<int>(peers.size())) << use.algorithm << " on rank " << comm.rank();
      EXPECT_EQ(comm.stats().queue_pairs, peers.size()) << use.algorithm << " on rank " << comm.rank();
    });
  }
}

}  // namespace
}  // namespace tutti::test
