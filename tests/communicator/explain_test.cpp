// What explain says of a call is what the call does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

// Short enough that registered buffers are tried, and so long that they are presumed to pay.
TEST(Explanation, OfPlainBuffersBesideRegisteredOnesIsNotZeroCopy) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    constexpr std::size_t count = 16 << 10;
    const auto registered = comm.allocate<float>(2 * count);
    std::vector<float> plain(2 * count);
    const auto explained = [&](float* data) {
      return comm.explain({.operation = Operation::all_reduce,
                           .type = DataType::float32,
                           .in = data,
                           .out = data == nullptr ? nullptr : data + count,
                           .count = count});
    };
    const auto direct_bytes = [&](float* data) {
      const auto before = comm.stats().bytes_direct;
      comm.all_reduce(data, data + count, count, DataType::float32);
      return comm.stats().bytes_direct - before;
    };
    EXPECT_THAT(explained(registered.data()), HasSubstr("  at present: zero copy (not yet measured)\n"));
    EXPECT_GT(direct_bytes(registered.data()), 0U);
    for (float* const data : {plain.data(), static_cast<float*>(nullptr)})
      EXPECT_THAT(explained(data),
                  HasSubstr("  at present: through slots of shared memory (not yet measured)\n"));
    EXPECT_EQ(direct_bytes(plain.data()), 0U);
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
