// What communicators over RDMA take from the system, while they live and afterwards.
#include <gtest/gtest.h>

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
      const Held held{open_descriptors(), field_of_status("VmPin:"), field_of_status("VmRSS:")};
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

/// Ranks of other nodes that a rank sends to or receives from.
std::set<Rank> peers_of(Collective collective, const std::string& algorithm, Rank rank, int ranks,
                        int node_size) {
  std::set<Rank> peers;
  const Schedule schedule = find_algorithm(collective, algorithm)->make(ranks, 0, node_size);
  for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)])
    for (const Step& step : lane)
      for (const auto* operands : {&step.sources, &step.sinks})
        for (const Operand& operand : *operands)
          if (operand.kind == Operand::Kind::message && operand.rank / node_size != rank / node_size)
            peers.insert(operand.rank);
  return peers;
}

/// What an all_reduce of one number takes, as a communicator's first one does.
std::string first_choice(Communicator& comm) {
  float one = 1, sum = 0;
  const std::string text = comm.explain(
      {.operation = Operation::all_reduce, .type = DataType::float32, .in = &one, .out = &sum, .count = 1});
  std::smatch found;
  return std::regex_search(text, found, std::regex("algorithm (\\w+)")) ? found[1] : std::string("none");
}

// N ranks with an adapter each, g a node. Adapters hold one bidirectional pair a peer that the schedules talk
// to, in whichever direction; and one of the kernel's.
TEST_F(LabResources, QueuePairsAreThoseOfTheSchedules) {
  constexpr int ranks = 8;
  struct Use {
    Operation operation;
    Collective collective;
    const char* algorithm;
    int node_size;
    int busiest, all;  ///< queue pairs of the busiest adapter, of all adapters
  };
  for (const auto& use : {
           Use{Operation::all_reduce, Collective::all_reduce, "ring", 1, 2, 2 * ranks},
           Use{Operation::broadcast, Collective::broadcast, "tree", 1, 3,
               2 * (ranks - 1)},  // log2 N at the root
           Use{Operation::all_to_all, Collective::all_to_all, "pairwise", 1, ranks - 1, ranks * (ranks - 1)},
           Use{Operation::all_to_all, Collective::all_to_all, "pairwise", 2, ranks - 2, ranks * (ranks - 2)},
           Use{Operation::all_to_all, Collective::all_to_all, "hierarchical", 2, ranks / 2 - 1,
               ranks * (ranks / 2 - 1)},  // along the rails
       }) {
    SCOPED_TRACE(std::string(use.algorithm) + ", nodes of " + std::to_string(use.node_size));
    int busiest = 0, all = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const int pairs =
          static_cast<int>(peers_of(use.collective, use.algorithm, rank, ranks, use.node_size).size());
      busiest = std::max(busiest, pairs);
      all += pairs;
    }
    EXPECT_EQ(busiest, use.busiest);
    EXPECT_EQ(all, use.all);
    Job eight = job(ranks, ranks / use.node_size, 1);
    eight.options.algorithm = use.algorithm;
    eight.prepare = [](Rank rank) {
      ::setenv("TUTTI_VERBS_DEVICES", ("rx" + std::to_string(rank) + "_0").c_str(), 1);
    };
    expect_well(eight, [&](Communicator& comm) {
      const auto pairs = [&] { return pairs_of("rx" + std::to_string(comm.rank()) + "_0") - 1; };
      std::set<Rank> peers;
      const auto expect_pairs = [&](Collective collective, const std::string& algorithm) {
        peers.merge(peers_of(collective, algorithm, comm.rank(), ranks, use.node_size));
        comm.barrier();
        EXPECT_EQ(pairs(), static_cast<int>(peers.size())) << algorithm << ", rank " << comm.rank();
        EXPECT_EQ(comm.stats().queue_pairs, peers.size()) << algorithm << ", rank " << comm.rank();
        comm.barrier();
      };
      peers = peers_of(Collective::barrier, "dissemination", comm.rank(), ranks, use.node_size);
      expect_pairs(Collective::all_reduce, first_choice(comm));  // by which it was made
      expect_right(comm, {.operation = use.operation, .count = 1000});
      expect_pairs(use.collective, use.algorithm);
    });
  }
}

}  // namespace
}  // namespace tutti::test
