// Ranks of which one makes, enlarges or ends a Gpu while others call something else: every rank learns what.
#include <tutti/gpu.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "communicator/ranks.hpp"
#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// All ranks of a communicator make it together.
struct MadeTogether {
  std::string name;  ///< in messages
  std::function<void(Communicator&, Gpu&)> make;
};

class GpuMismatches : public GpuTest {
 protected:
  /// Those of a Gpu, then the communicator's own.
  static constexpr std::size_t of_gpu = 4;
  std::vector<MadeTogether> calls() {
    return {
        {"making a Gpu", [](Communicator& comm, Gpu&) { const Gpu other(comm, small); }},
        {"destroying a Gpu", [](Communicator&, Gpu& gpu) { gpu = Gpu(); }},
        {"Gpu::allocate()", [](Communicator&, Gpu& gpu) { (void)gpu.allocate<float>(10); }},
        {"Gpu::register_memory()",
         [this](Communicator&, Gpu& gpu) {
           const OnGpu<float> buffer(memory, 10);
           (void)gpu.register_memory(buffer.data(), 10 * sizeof(float));
         }},
        {"barrier()", [](Communicator& comm, Gpu&) { comm.barrier(); }},
        {"all_reduce(10 x float32, sum)",
         [](Communicator& comm, Gpu&) {
           std::vector<float> data(10);
           comm.all_reduce(std::span(data));
         }},
        {"split()", [](Communicator& comm, Gpu&) { (void)comm.split(0); }},
        {"duplicate()", [](Communicator& comm, Gpu&) { (void)comm.duplicate(); }},
        {"allocate()", [](Communicator& comm, Gpu&) { (void)comm.allocate<float>(10); }},
        {"register_memory()",
         [](Communicator& comm, Gpu&) {
           std::vector<float> data(10);
           (void)comm.register_memory(data.data(), 10 * sizeof(float));
         }},
        {"making a window",
         [](Communicator& comm, Gpu&) {
           std::vector<float> data(10);
           const Window window(comm, std::span(data));
         }},
        {"predict()", [](Communicator& comm, Gpu&) { (void)comm.predict({}); }},
    };
  }
};

// Not at the deadline.
TEST_F(GpuMismatches, AreNamedOnEveryRank) {
  const auto all = calls();
  for (std::size_t odd = 0; odd < of_gpu; ++odd)
    for (std::size_t usual = odd + 1; usual < all.size(); ++usual) {
      const auto results = outcomes(3, over({}, 10s), [&](Communicator& comm) {
        Gpu gpu(comm, small);
        all[comm.rank() == 1 ? odd : usual].make(comm, gpu);
        comm.barrier();  // the end of a Gpu throws nothing
      });
      for (const auto& result : results) {
        EXPECT_TRUE(result.code == ErrorCode::mismatch || result.code == ErrorCode::aborted) << result.text;
        ASSERT_THAT(result.text, HasSubstr(all[odd].name));
        // "Gpu::allocate()" holds the name of the communicator's.
        std::string rest = result.text;
        EXPECT_THAT(rest.erase(rest.find(all[odd].name), all[odd].name.size()), HasSubstr(all[usual].name));
      }
    }
}

}  // namespace
}  // namespace tutti::test
