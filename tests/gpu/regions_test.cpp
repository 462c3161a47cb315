// Memory that all ranks reach, though they are processes: allocated for it, or registered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/device/membership.hpp"
#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t count = 30011;
constexpr auto type = DataType::float32;

/// Ranks that are threads, each of which passes for a process.
class GpuRegions : public GpuTest {
 protected:
  GpuRegions() { api->processes = true; }

  /// An all_reduce of the ranks' numbers, and what it should be.
  void expect_sum(Communicator& comm, Gpu& gpu, float* in, float* out) const {
    auto wanted = numbers(count, comm.rank());
    std::memcpy(in, wanted.data(), count * sizeof(float));
    comm.all_reduce(std::span(wanted));
    gpu.on(nullptr).all_reduce(in, out, count, type);
    api->synchronize(nullptr);
    gpu.check();
    EXPECT_EQ(std::vector<float>(out, out + count), wanted);
    comm.barrier();
  }
  static std::string way(Gpu& gpu, const float* in, float* out) {
    return gpu.explain(
        {.operation = Operation::all_reduce, .type = type, .in = in, .out = out, .count = count});
  }
  static void expect_refused(const std::function<void()>& call, const char* text,
                             ErrorCode code = ErrorCode::invalid_argument) {
    EXPECT_EQ(code_of(call, text), code);
  }
};

TEST(Membership, KnowsWhereThisRankReachesWhatIsAnothers) {
  alignas(64) std::byte memory[256] = {};
  gpu::device::Membership group;
  group.regions[1][1] = {memory, 64, memory + 128};
  group.region_count = 2;
  EXPECT_EQ(group.reach(1, memory), memory + 128);
  EXPECT_EQ(group.reach(1, memory + 63), memory + 191);
  EXPECT_EQ(group.reach(1, memory + 64), memory + 64);  // in no region
  EXPECT_EQ(group.reach(0, memory), memory);            // of another rank
}

TEST_F(GpuRegions, CallsGoStraightBetweenThem) {
  struct Case {
    const char* name;
    bool descriptors, fabric;
  };
  for (const Case& each :
       {Case{"descriptor", true, false}, {"fabric", true, true}, {"CUDA IPC", false, false}}) {
    SCOPED_TRACE(each.name);
    api->offers_descriptors = each.descriptors;
    api->offers_fabric = each.fabric;
    api->opens_descriptors = !each.fabric;
    run_local(3, [&](Communicator& comm) {
      Gpu gpu(comm, small);
      const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
      EXPECT_EQ(in.span()[count - 1], 0);
      EXPECT_THAT(way(gpu, in.data(), out.data()), HasSubstr("on everybody's buffers"));
      for (int time = 0; time < 2; ++time) expect_sum(comm, gpu, in.data(), out.data());
      const OnGpu<float> plain_in(memory, count), plain_out(memory, count);
      EXPECT_THAT(way(gpu, plain_in.data(), out.data()), Not(HasSubstr("everybody's")));
      expect_sum(comm, gpu, plain_in.data(), plain_out.data());  // by messages
      expect_sum(comm, gpu, plain_in.data(), out.data());
    });
    EXPECT_EQ(api->imports, 0);
    EXPECT_EQ(api->bytes_held(), 0U);
  }
}

TEST_F(GpuRegions, EveryOperationOnAPartOfOne) {
  run_local(3, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const auto all = gpu.allocate<float>(8 * count);
    float* const in = all.data() + 7;
    float* const out = all.data() + 4 * count + 3;
    const auto n = static_cast<std::size_t>(comm.size());
    const auto compare = [&](std::size_t in_count, std::size_t out_count, const auto& operation) {
      const auto input = numbers(in_count, comm.rank());
      std::vector<float> wanted(out_count, -1);
      std::memcpy(in, input.data(), in_count * sizeof(float));
      std::fill_n(out, out_count, -1.0F);
      operation(comm, input.data(), wanted.data());
      auto ops = gpu.on(nullptr);
      operation(ops, in, out);
      api->synchronize(nullptr);
      gpu.check();
      EXPECT_EQ(std::vector<float>(out, out + out_count), wanted);
      comm.barrier();
    };
    compare(count, count, [](auto& o, const float* i, float* x) { o.all_reduce(i, x, count, type); });
    compare(count, n * count, [](auto& o, const float* i, float* x) { o.all_gather(i, x, count, type); });
    compare(n * count, count, [](auto& o, const float* i, float* x) { o.reduce_scatter(i, x, count, type); });
    compare(n * count, n * count, [](auto& o, const float* i, float* x) { o.all_to_all(i, x, count, type); });
    compare(count, count, [](auto& o, const float* i, float* x) { o.broadcast(i, x, count, type, 1); });
    compare(count, count, [](auto& o, const float* i, float* x) { o.reduce(i, x, count, type, 2); });
    compare(count, count, [](auto& o, const float* i, float* x) {
      o.all_reduce(i, x, count, type, scaled_sum(0.5));  // a copy of the input, which others do not reach
    });
  });
}

TEST_F(GpuRegions, ThatOneRankCannotPublishAreToldToAll) {
  static thread_local bool fails = false;
  api->before = [](std::string_view call) {
    if (fails && call == "upload") throw Error(ErrorCode::system, "the device is gone");
  };
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    fails = comm.rank() == 1;
    EXPECT_EQ(code_of([&] { static_cast<void>(gpu.allocate<float>(count)); }, "rank 1: the device is gone"),
              ErrorCode::system);
    fails = false;
    const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
    expect_sum(comm, gpu, in.data(), out.data());
  });
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuRegions, FactorsMayDifferBetweenRanks) {
  for (const bool processes : {true, false}) {
    api->processes = processes;
    run_local(2, [&](Communicator& comm) {
      Gpu gpu(comm, small);
      const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
      const Reduction mine = scaled_sum(comm.rank() == 0 ? 1.0 : 0.5);
      for (float* const to : {out.data(), in.data()}) {
        auto wanted = numbers(count, comm.rank());
        std::memcpy(in.data(), wanted.data(), count * sizeof(float));
        comm.all_reduce(std::span(wanted), mine);
        gpu.on(nullptr).all_reduce(in.data(), to, count, type, mine);
        api->synchronize(nullptr);
        gpu.check();
        EXPECT_EQ(std::vector<float>(to, to + count), wanted);
        comm.barrier();
      }
    });
  }
}

TEST_F(GpuRegions, ExistingMemoryIsRegistered) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const OnGpu<float> in(memory, count), out(memory, count);
    {
      const auto first = gpu.register_memory(in.data(), count * sizeof(float));
      EXPECT_THAT(way(gpu, in.data(), out.data()), Not(HasSubstr("everybody's")));
      const auto second = gpu.register_memory(out.data(), count * sizeof(float));
      EXPECT_THAT(way(gpu, in.data(), out.data()), HasSubstr("everybody's"));
      expect_sum(comm, gpu, in.data(), out.data());
    }
    EXPECT_THAT(way(gpu, in.data(), out.data()), Not(HasSubstr("everybody's")));
    expect_sum(comm, gpu, in.data(), out.data());
  });
  EXPECT_EQ(api->imports, 0);
}

TEST_F(GpuRegions, FreedMemoryIsRefused) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    GpuBuffer<float> buffer;
    EXPECT_TRUE(buffer.span().empty());
    GpuBuffer<float> made = gpu.allocate<float>(count);
    float* const data = made.data();
    buffer = std::move(made);
    EXPECT_EQ(made.data(), nullptr);  // NOLINT(bugprone-use-after-move): it is empty
    EXPECT_EQ(made.size(), 0U);
    EXPECT_EQ(buffer.data(), data);
    auto ops = gpu.on(nullptr);
    expect_refused([&] { ops.all_reduce(data + 1, data + 1, count, type); }, "reaches 4 bytes beyond");
    buffer = {};
    expect_refused([&] { ops.all_reduce(data, data, count, type); }, "was freed: its GpuBuffer is gone");
    const auto another = gpu.allocate<float>(count);
    expect_sum(comm, gpu, another.data(), another.data());
  });
}

TEST_F(GpuRegions, MemoryThatWasFreedWhileRegisteredIsRefused) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    auto ops = gpu.on(nullptr);
    std::byte* const data = api->allocate(count * sizeof(float));
    const auto registration = gpu.register_memory(data, count * sizeof(float));
    comm.barrier();
    api->free(data);
    expect_refused([&] { ops.all_reduce(data, data, count, type); }, "or was freed");
    api->pin(data, count * sizeof(float));  // something else at its address
    expect_refused([&] { ops.all_reduce(data, data, count, type); }, "other memory is at its address now");
    api->unpin(data);
    comm.barrier();
  });
}

TEST_F(GpuRegions, OnlyMemoryOfTheDeviceIsRegistered) {
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    std::vector<float> host(10);
    const auto try_it = [&](void* data, std::size_t bytes) {
      return [&gpu, data, bytes] { static_cast<void>(gpu.register_memory(data, bytes)); };
    };
    expect_refused(try_it(host.data(), 40), "host or managed memory, or was freed");
    expect_refused(try_it(nullptr, 40), "none (null, or 0 bytes)");
    api->set_device(1);
    const OnGpu<float> other(memory, 10);
    api->set_device(0);
    expect_refused(try_it(other.data(), 40), "of device 1");
    const OnGpu<float> mine(memory, 10);
    expect_refused(try_it(mine.data(), 0), "0 bytes");
  });
}

TEST_F(GpuRegions, MemoryOfSeveralAllocationsIsRefusedOnAllRanks) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const OnGpu<float> mine(memory, 10);
    for (const std::size_t too_many : {std::size_t{4000}, ~std::size_t{0}}) {
      const std::size_t bytes = comm.rank() == 1 ? too_many : 40;
      expect_refused([&] { static_cast<void>(gpu.register_memory(mine.data(), bytes)); },
                     "made of several allocations", ErrorCode::unsupported);
    }
    const auto good = gpu.allocate<float>(count);
    expect_sum(comm, gpu, good.data(), good.data());
  });
}

TEST_F(GpuRegions, ReleasedOnesMakeRoom) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    for (int time = 0; time <= gpu::device::max_regions; ++time) static_cast<void>(gpu.allocate<float>(16));
    std::vector<GpuBuffer<float>> kept;
    for (int i = 0; i < gpu::device::max_regions; ++i) kept.push_back(gpu.allocate<float>(16));
    expect_refused([&] { static_cast<void>(gpu.allocate<float>(16)); }, "room for no more",
                   ErrorCode::unsupported);
    if (comm.rank() == 0) kept.pop_back();  // released here only
    expect_refused([&] { static_cast<void>(gpu.allocate<float>(16)); }, "room for no more",
                   ErrorCode::unsupported);
    if (comm.rank() == 1) kept.pop_back();
    static_cast<void>(gpu.allocate<float>(16));
  });
  EXPECT_EQ(api->imports, 0);
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuRegions, WhatIsTooLargeForOneIsRefusedOnAllRanks) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    constexpr auto most = static_cast<std::size_t>(-1);
    comm.barrier();
    const std::size_t held = api->bytes_held();
    comm.barrier();
    for (const std::size_t huge : {most, most / sizeof(float)})
      expect_refused([&] { static_cast<void>(gpu.allocate<float>(comm.rank() == 0 ? huge : count)); },
                     "rank 0: allocate: no device has that much memory", ErrorCode::unsupported);
    comm.barrier();
    EXPECT_EQ(api->bytes_held(), held);
    comm.barrier();
    const auto good = gpu.allocate<float>(count);
    expect_sum(comm, gpu, good.data(), good.data());
  });
}

TEST_F(GpuRegions, WhereMemoryCannotBeSharedAllRanksHearOfIt) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    comm.barrier();
    const std::size_t held = api->bytes_held();
    comm.barrier();
    api->opens_descriptors = false;
    comm.barrier();
    expect_refused([&] { static_cast<void>(gpu.allocate<float>(100)); }, "the test refuses it",
                   ErrorCode::unsupported);
    comm.barrier();
    EXPECT_EQ(api->bytes_held(), held);
  });
}

TEST_F(GpuRegions, WhatWasReleasedIsForgottenByTheDeviceThoughNothingNewComes) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    std::optional buffer = gpu.allocate<float>(count);
    buffer.reset();
    comm.barrier();
    const int uploads = api->uploads;
    comm.barrier();
    expect_refused([&] { static_cast<void>(gpu.allocate<float>(static_cast<std::size_t>(-1))); },
                   "no device has that much memory", ErrorCode::unsupported);
    comm.barrier();
    EXPECT_EQ(api->uploads, uploads + comm.size());
  });
}

TEST_F(GpuRegions, OneProcessReachesAllAnyway) {
  api->processes = false;
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
    EXPECT_THAT(way(gpu, in.data(), out.data()), HasSubstr("everybody's"));
    expect_sum(comm, gpu, in.data(), out.data());
  });
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuRegions, WhereDevicesAreNotReachedItIsPlainMemory) {
  run_local(2, [&](Communicator& comm) {
    GpuOptions options = small;
    options.peer_access = false;
    Gpu gpu(comm, options);
    const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
    EXPECT_THAT(way(gpu, in.data(), out.data()), Not(HasSubstr("everybody's")));
    expect_sum(comm, gpu, in.data(), out.data());
  });
  EXPECT_EQ(api->bytes_held(), 0U);
}

TEST_F(GpuRegions, BuffersOfWhichSomeAreReachedAreAMismatch) {
  std::atomic<int> mismatches = 0;
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const auto in = gpu.allocate<float>(count), out = gpu.allocate<float>(count);
    const OnGpu<float> plain(memory, count);
    gpu.on(nullptr).all_reduce(in.data(), comm.rank() == 0 ? out.data() : plain.data(), count, type);
    api->synchronize(nullptr);
    try {
      while (true) {  // a rank that waits for nobody hears of it later
        gpu.check();
        comm.barrier();
      }
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::aborted) << error.what();
      if (error.code() == ErrorCode::mismatch) ++mismatches;
    }
  });
  EXPECT_GE(mismatches, 1);
}

}  // namespace
}  // namespace tutti::test
