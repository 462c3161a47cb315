// Schedules of a communicator are not those of its Gpu.
#include <tutti/gpu.hpp>

#include <gtest/gtest.h>

#include <string>

#include <tutti/local.hpp>
#include <tutti/schedule.hpp>

#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

// A communicator's schedules are for host memory.
TEST_F(GpuTest, TakesNoScheduleOfTheUser) {
  const Schedule given = parse_schedule(R"(
all_reduce "given" ranks 2 chunks 1
rank 0
  lane 0
    to 1 = in[0]
    out[0] = in[0] + from 1 complete
rank 1
  lane 0
    to 0 = in[0]
    out[0] = from 0 + in[0] complete
)");
  run_local(
      2,
      [&](Communicator& comm) {
        comm.use(given);
        Gpu gpu(comm, small);
        const OnGpu<float> in(memory, 100), out(memory, 100);
        const std::string plan = gpu.explain({.operation = Operation::all_reduce,
                                              .type = DataType::float32,
                                              .in = in.data(),
                                              .out = out.data(),
                                              .count = 100});
        EXPECT_EQ(plan.find("given"), std::string::npos) << plan;
      },
      quick());
}

}  // namespace
}  // namespace tutti::test
