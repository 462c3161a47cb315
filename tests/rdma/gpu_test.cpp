// Emulated GPUs of ranks on several nodes: their messages over queue pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include <tutti/gpu.hpp>

#include "gpu/emulated_memory.hpp"
#include "rdma/nodes.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// From device memory, which is plain memory here, and from host memory.
class LabGpu : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (const auto lacks = lab_lacks(2, 1); !lacks.empty()) GTEST_SKIP() << lacks;
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, LabGpu, testing::Bool(),
                         [](const auto& direct) { return direct.param ? "device" : "host"; });

TEST_P(LabGpu, EveryOperation) {
  const long before = counter(0, 0, "sent_pkts");
  expect_well(job(2, 2, 1), [](Communicator& comm) {
    const auto api = std::make_shared<EmulatedApi>();
    gpu::replace_api(api);
    EmulatedMemory memory(*api);
    GpuOptions options{.blocks = 4, .memory = std::size_t{1} << 20};
    options.gpu_direct = GetParam();
    Gpu gpu(comm, options);
    EXPECT_THAT(gpu.explain(), HasSubstr("messages of up to 4096 bytes"));
    EXPECT_THAT(gpu.explain(),
                HasSubstr(GetParam() ? "over verbs: from and into device memory (nvidia-peermem)"
                                     : "over verbs: through page-locked host memory"));
    for (const std::size_t count : {1, 1023, 1024, 1025, 9000}) exercise(memory, comm, gpu, count);
  });
  EXPECT_GT(counter(0, 0, "sent_pkts"), before + 500);
}

}  // namespace
}  // namespace tutti::test
