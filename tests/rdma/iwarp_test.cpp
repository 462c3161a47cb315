// Collectives over iWARP devices, which connect through rdma_cm and have no immediates.
#include <gtest/gtest.h>

#include <fstream>

#include "communicator/exercise.hpp"
#include "communicator/sequence.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

long packets_received(const std::string& interface) {
  long packets = -1;
  std::ifstream("/sys/class/net/" + interface + "/statistics/rx_packets") >> packets;
  return packets;
}

class LabIwarp : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(3, 2, "siw"); !lacks.empty()) GTEST_SKIP() << lacks;
  }
  static Job over(int ranks, int rails) {
    Job made = job(ranks, ranks, rails);
    made.devices = "siw";
    made.options.transport = "verbs";
    return made;
  }
};

TEST_F(LabIwarp, TwoRanks) {
  const auto before = packets_received("v1_0");
  expect_well(over(2, 1), [](Communicator& comm) {
    for (const auto operation : {Operation::all_reduce, Operation::all_to_all})
      for (const std::size_t count : {1U, 1000U, 200'000U})
        expect_right(comm, {.operation = operation, .count = count});
  });
  EXPECT_GT(packets_received("v1_0"), before + 200) << "the data went another way";
}

TEST_F(LabIwarp, EveryOperationOverTwoRails) {
  const auto before = packets_received("v2_1");
  expect_well(over(3, 2), [](Communicator& comm) {
    every_operation(comm, {0, 1, 40'000});
    run_sequence(comm, 5, 20);
  });
  EXPECT_GT(packets_received("v2_1"), before + 200) << "the second rail was not used";
}

}  // namespace
}  // namespace tutti::test
