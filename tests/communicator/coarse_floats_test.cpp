// Sums of floats of 8 bits: as if they were added in float32 and rounded at the end, whatever the algorithm.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

/// Rank 0 has one element, the others another; what comes out on five ranks.
struct Sum {
  DataType type;
  ReduceOp op;
  std::uint8_t of_first, of_others, result;
};
constexpr Sum sums[] = {
    {DataType::fp8_e4m3, ReduceOp::sum, 0x58, 0x38, 0x5A},      // 16 + 4 * 1 = 20; next to 16 is 18
    {DataType::fp8_e5m2, ReduceOp::sum, 0x48, 0x3C, 0x4A},      // 8 + 4 * 1 = 12; next to 8 is 10
    {DataType::fp8_e4m3, ReduceOp::average, 0x6C, 0x6C, 0x6C},  // of 96; 448 is the largest
    {DataType::fp8_e5m2, ReduceOp::average, 0x7A, 0x7A, 0x7A},  // of 49152; 57344 is the largest
};

class CoarseFloats : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, CoarseFloats, testing::Values("shm", "tcp"), transport_name);

TEST_P(CoarseFloats, AreRoundedOnce) {
  run_local(
      5,
      [](Communicator& comm) {
        for (const Sum& sum : sums)
          for (const std::size_t count : {1, 1000, 100'000}) {
            const std::size_t all = 5 * count;
            const std::vector<std::uint8_t> in(all, comm.rank() == 0 ? sum.of_first : sum.of_others);
            const std::vector<std::uint8_t> right(all, sum.result);
            std::vector<std::uint8_t> out(all);
            comm.all_reduce(in.data(), out.data(), all, sum.type, sum.op);
            EXPECT_TRUE(out == right) << "all_reduce of " << all << " x " << name(sum.type);
            out.assign(all, 0);
            comm.reduce(in.data(), out.data(), all, sum.type, 3, sum.op);
            EXPECT_TRUE(comm.rank() != 3 || out == right) << "reduce of " << all << " x " << name(sum.type);
            out.assign(count, 0);
            comm.reduce_scatter(in.data(), out.data(), count, sum.type, sum.op);
            EXPECT_TRUE(std::equal(out.begin(), out.end(), right.begin()))
                << "reduce_scatter of " << count << " x " << name(sum.type);
          }
      },
      over(GetParam()));
}

// As docs/algorithms.md says.
TEST(CoarseFloatsOfARing, AreRoundedInEachStep) {
  Options options = over("shm");
  options.algorithm = "ring";
  run_local(
      8,
      [](Communicator& comm) {
        std::vector<fp8_e4m3> data(8, to_fp8_e4m3(96));
        comm.all_reduce(data, ReduceOp::average);
        for (const fp8_e4m3 each : data) EXPECT_EQ(to_float(each), 64) << "448, the largest, and 96 by 8";
      },
      options);
}

}  // namespace
}  // namespace tutti::test
