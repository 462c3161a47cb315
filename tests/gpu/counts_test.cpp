// all_to_all_v whose counts only the device knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t room = 9000;

/// What `from` sends to `to`, so that some send nothing and some more than a message holds.
std::uint64_t block_of(Rank from, Rank to, int time) {
  return static_cast<std::uint64_t>(from * 3001 + to * 17 + time * 5) % (to == from + 1 ? 4000 : 1500) *
         (from == 1 && to == 0 ? 0 : 1);
}

/// Counts and displacements of one rank, and what arrives.
struct Traffic {
  Numbers sent, sent_at, received, received_at;
  std::vector<float> input = std::vector<float>(room), output = std::vector<float>(room, -1);

  Traffic(Rank rank, int ranks, int time, bool packed) {
    const std::uint64_t gap = packed ? 0 : 7;
    std::uint64_t in = gap, out = gap;
    for (Rank r = 0; r < ranks; ++r) {
      sent.push_back(block_of(rank, r, time));
      received.push_back(block_of(r, rank, time));
      sent_at.push_back(in);
      received_at.push_back(out);
      for (std::uint64_t i = 0; i < sent.back(); ++i) input[in + i] = value(rank, r, i);
      for (std::uint64_t i = 0; i < received.back(); ++i) output[out + i] = value(r, rank, i);
      in += sent.back() + gap;
      out += received.back() + gap;
    }
  }
  static float value(Rank from, Rank to, std::uint64_t i) {
    return static_cast<float>(from * 100000 + to * 10000) + static_cast<float>(i);
  }
};

class GpuCounts : public GpuTest {
 protected:
  /// On device memory.
  struct OnDevice {
    OnDevice(EmulatedMemory& memory, const Traffic& traffic)
        : sent(memory, traffic.sent),
          sent_at(memory, traffic.sent_at),
          received(memory, traffic.received),
          received_at(memory, traffic.received_at),
          input(memory, traffic.input),
          output(memory, std::vector<float>(room, -1)) {}
    void call(Gpu& gpu, void* stream, bool packed, std::size_t out_room = room) const {
      gpu.on(stream).all_to_all_v(
          input.data(), {sent.data(), packed ? nullptr : sent_at.data(), room}, output.data(),
          {received.data(), packed ? nullptr : received_at.data(), out_room}, DataType::float32);
    }
    OnGpu<std::uint64_t> sent, sent_at, received, received_at;
    OnGpu<float> input, output;
  };
};

TEST_F(GpuCounts, BlocksArriveWhereTheyBelong) {
  for (const bool packed : {true, false})
    for (const auto& options : {small, hosts_of(2)})
      run_local(3, [&](Communicator& comm) {
        Gpu gpu(comm, options);
        const Traffic traffic(comm.rank(), comm.size(), 0, packed);
        const OnDevice device(memory, traffic);
        device.call(gpu, nullptr, packed);
        api->synchronize(nullptr);
        gpu.check();
        ASSERT_EQ(device.output.values(), traffic.output) << comm.rank();
        comm.barrier();
      });
}

TEST_F(GpuCounts, AGraphFollowsCountsThatChange) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const gpu::Stream stream = api->create_stream();
    const OnDevice device(memory, Traffic(comm.rank(), comm.size(), 0, true));
    api->begin_capture(stream);
    device.call(gpu, stream, true);
    const auto graph = api->end_capture(stream);
    for (int time = 0; time < 3; ++time) {
      const Traffic traffic(comm.rank(), comm.size(), time, true);
      const std::vector<float> untouched(room, -1);
      memory.put(reinterpret_cast<std::byte*>(device.sent.data()), traffic.sent.data(), 2 * 8);
      memory.put(reinterpret_cast<std::byte*>(device.received.data()), traffic.received.data(), 2 * 8);
      memory.put(reinterpret_cast<std::byte*>(device.input.data()), traffic.input.data(), room * 4);
      memory.put(reinterpret_cast<std::byte*>(device.output.data()), untouched.data(), room * 4);
      api->replay(graph, stream);
      api->synchronize(stream);
      gpu.check();
      ASSERT_EQ(device.output.values(), traffic.output);
    }
    comm.barrier();
    api->destroy_stream(stream);
  });
}

/// What `check` throws on a rank whose numbers are wrong.
void expect_failure(EmulatedApi& api, Gpu& gpu, ErrorCode code, const char* text) {
  api.synchronize(nullptr);
  EXPECT_EQ(code_of([&] { gpu.check(); }, text), code);
}

TEST_F(GpuCounts, WhatReachesBeyondTheBufferIsReported) {
  run_local(1, [&](Communicator& comm) {
    for (const bool packed : {true, false}) {
      Gpu gpu(comm, small);
      Traffic traffic(0, 1, 3, packed);
      const OnDevice device(memory, traffic);
      device.call(gpu, nullptr, packed, traffic.received[0] - 1);
      expect_failure(*api, gpu, ErrorCode::invalid_argument, "for rank 0 reach beyond the buffers");
      EXPECT_EQ(device.output.values(), std::vector<float>(room, -1));
    }
  });
}

TEST_F(GpuCounts, ADisplacementThatOverflowsIsReported) {
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    Traffic traffic(0, 1, 3, false);
    traffic.sent_at[0] = ~std::uint64_t{0} - 2;
    const OnDevice device(memory, traffic);
    device.call(gpu, nullptr, false);
    expect_failure(*api, gpu, ErrorCode::invalid_argument, "reach beyond the buffers");
  });
}

TEST_F(GpuCounts, AnEmptyBlockIsNowhere) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    Traffic traffic(comm.rank(), 2, 0, false);
    const auto& block = comm.rank() == 0 ? traffic.received : traffic.sent;
    auto& at = comm.rank() == 0 ? traffic.received_at : traffic.sent_at;
    const std::size_t peer = comm.rank() == 0 ? 1 : 0;
    ASSERT_EQ(block[peer], 0U);
    at[peer] = ~std::uint64_t{0};
    const OnDevice device(memory, traffic);
    device.call(gpu, nullptr, false);
    api->synchronize(nullptr);
    gpu.check();
    ASSERT_EQ(device.output.values(), traffic.output) << comm.rank();
    comm.barrier();
  });
}

TEST_F(GpuCounts, EndsThatDifferAreAMismatch) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    Traffic traffic(comm.rank(), 2, 0, false);
    if (comm.rank() == 0) traffic.received[1] = 40;  // rank 1 sends nothing
    const OnDevice device(memory, traffic);
    device.call(gpu, nullptr, false);
    if (comm.rank() == 0) expect_failure(*api, gpu, ErrorCode::mismatch, "rank 1 made another call");
    hear_of_failure(comm);
    api->synchronize(nullptr);  // the kernel reads the buffers until it has given up
  });
}

TEST_F(GpuCounts, WhatCannotBeIsRefusedBeforeItRuns) {
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const OnGpu<float> buffer(memory, room);
    const OnGpu<std::uint64_t> counts(memory, Numbers{1});
    const std::uint64_t host = 1;
    const auto call = [&](const std::uint64_t* sent, const std::uint64_t* received) {
      gpu.on(nullptr).all_to_all_v(buffer.data(), {sent, nullptr, 10}, buffer.data() + 100,
                                   {received, nullptr, 10}, DataType::float32);
    };
    const auto refused = [&](std::size_t sent, std::size_t received, DataType type) {
      try {
        gpu.on(nullptr).all_to_all_v(buffer.data(), {counts.data(), nullptr, sent}, buffer.data() + 100,
                                     {counts.data(), nullptr, received}, type);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return std::string(error.what());
      }
      return std::string("nothing");
    };
    EXPECT_THAT(refused(101, 10, DataType::float32), HasSubstr("input and output overlap"));
    EXPECT_THAT(refused(std::size_t{1} << 61U, 10, DataType::float64), HasSubstr("overflows"));
    EXPECT_THAT(refused(10, 10, static_cast<DataType>(200)), HasSubstr("unknown data type code 200"));
    EXPECT_THROW(call(&host, counts.data()), Error);
    EXPECT_THROW(call(counts.data(), nullptr), Error);
    EXPECT_NO_THROW(call(counts.data(), counts.data()));
    api->synchronize(nullptr);
    gpu.check();
  });
}

}  // namespace
}  // namespace tutti::test
