// Every collective of the drop-in against the communicator's own on host memory, bit by bit.
#include <tutti/local.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "kernels/fixture.hpp"
#include "nccl/clients.hpp"

namespace tutti::test {
namespace {

constexpr std::array nccl_types{ncclInt8,    ncclUint8,   ncclInt32,      ncclUint32,
                                ncclInt64,   ncclUint64,  ncclFloat16,    ncclBfloat16,
                                ncclFloat32, ncclFloat64, ncclFloat8e4m3, ncclFloat8e5m2};
constexpr std::array nccl_ops{ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};

using Bytes = OnDeviceMemory<std::byte>;

/// A rank with both libraries.
struct Both {
  Communicator& cpu;
  ncclComm_t comm;
  cudaStream_t stream;
  EmulatedApi& api;

  /// `ours(in, out)` on host memory and `theirs(in, out)` on the device, of so many elements in and out.
  template <class Ours, class Theirs>
  void compare(DataType type, std::size_t in, std::size_t out, const Ours& ours, const Theirs& theirs) {
    std::mt19937_64 random{static_cast<std::uint64_t>(cpu.rank()) + in};
    const auto input = random_elements(type, random, in);
    std::vector<std::byte> wanted(out * size_of(type), std::byte{0xEE});
    const Bytes from(api, input), to(api, wanted);
    ours(input.data(), wanted.data());
    ASSERT_EQ(theirs(from.data(), to.data()), ncclSuccess) << ncclGetLastError(comm);
    api.synchronize(stream);
    ncclResult_t state = ncclInProgress;
    ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    ASSERT_EQ(state, ncclSuccess);
    ASSERT_TRUE(to.values() == wanted) << name(type) << ", rank " << cpu.rank();
  }
};

class Collectives : public NcclTest {
 protected:
  void with_both(int ranks, const std::function<void(Both&)>& body) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    run_local(ranks, [&](Communicator& cpu) {
      ncclComm_t comm = nullptr;
      api->set_device(0);
      ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, cpu.rank()), ncclSuccess) << ncclGetLastError(nullptr);
      Both both{cpu, comm, api->create_stream(), *api};
      body(both);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      api->destroy_stream(both.stream);
    });
  }
};

TEST_F(Collectives, AllReduceInEveryTypeAndOperation) {
  with_both(2, [&](Both& rank) {
    constexpr std::size_t count = 101;
    for (std::size_t t = 0; t < all_types.size(); ++t)
      for (std::size_t o = 0; o < all_ops.size(); ++o)
        rank.compare(
            all_types[t], count, count,
            [&](const void* in, void* out) { rank.cpu.all_reduce(in, out, count, all_types[t], all_ops[o]); },
            [&](const void* in, void* out) {
              return ncclAllReduce(in, out, count, nccl_types[t], nccl_ops[o], rank.comm, rank.stream);
            });
  });
}

TEST_F(Collectives, EveryOneOfThem) {
  with_both(3, [&](Both& rank) {
    auto& cpu = rank.cpu;
    const auto comm = rank.comm;
    const auto stream = rank.stream;
    constexpr auto type = DataType::bfloat16;
    constexpr int root = 2;
    for (const std::size_t n : {1, 5000}) {
      rank.compare(
          type, n, n, [&](auto* in, auto* out) { cpu.reduce(in, out, n, type, root, ReduceOp::max); },
          [&](auto* in, auto* out) {
            return ncclReduce(in, cpu.rank() == root ? out : nullptr, n, ncclBfloat16, ncclMax, root, comm,
                              stream);
          });
      rank.compare(
          type, 3 * n, n, [&](auto* in, auto* out) { cpu.reduce_scatter(in, out, n, type); },
          [&](auto* in, auto* out) {
            return ncclReduceScatter(in, out, n, ncclBfloat16, ncclSum, comm, stream);
          });
      rank.compare(
          type, n, n, [&](auto* in, auto* out) { cpu.broadcast(in, out, n, type, root); },
          [&](auto* in, auto* out) { return ncclBroadcast(in, out, n, ncclBfloat16, root, comm, stream); });
      rank.compare(
          type, n, n,
          [&](auto* in, auto* out) {
            std::memcpy(out, in, n * size_of(type));
            cpu.broadcast(out, out, n, type, root);
          },
          [&](auto* in, auto* out) {
            std::memcpy(out, in, n * size_of(type));
            return ncclBcast(out, n, ncclBfloat16, root, comm, stream);
          });
      rank.compare(
          type, n, 3 * n, [&](auto* in, auto* out) { cpu.all_gather(in, out, n, type); },
          [&](auto* in, auto* out) { return ncclAllGather(in, out, n, ncclBfloat16, comm, stream); });
      rank.compare(
          type, 3 * n, 3 * n, [&](auto* in, auto* out) { cpu.all_to_all(in, out, n, type); },
          [&](auto* in, auto* out) { return ncclAlltoAll(in, out, n, ncclBfloat16, comm, stream); });
      rank.compare(
          type, n, 3 * n, [&](auto* in, auto* out) { cpu.gather(in, out, n, type, root); },
          [&](auto* in, auto* out) { return ncclGather(in, out, n, ncclBfloat16, root, comm, stream); });
      rank.compare(
          type, 3 * n, n, [&](auto* in, auto* out) { cpu.scatter(in, out, n, type, root); },
          [&](auto* in, auto* out) { return ncclScatter(in, out, n, ncclBfloat16, root, comm, stream); });
    }
  });
}

TEST_F(Collectives, SumsWithAFactorOnTheHostAndOnTheDevice) {
  with_both(2, [&](Both& rank) {
    constexpr std::size_t count = 100;
    const double factor = rank.cpu.rank() == 0 ? 0.5 : 3;
    const auto check = [&]<class T>(T scalar, DataType type, ncclDataType_t their_type) {
      const OnDeviceMemory<T> on_device(rank.api, {scalar});
      for (const bool device : {false, true}) {
        ncclRedOp_t op = ncclSum;
        ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, device ? on_device.data() : &scalar, their_type,
                                           device ? ncclScalarDevice : ncclScalarHostImmediate, rank.comm),
                  ncclSuccess);
        EXPECT_GE(op, ncclNumOps);
        rank.compare(
            type, count, count,
            [&](auto* in, auto* out) { rank.cpu.all_reduce(in, out, count, type, scaled_sum(factor)); },
            [&](auto* in, auto* out) {
              return ncclAllReduce(in, out, count, their_type, op, rank.comm, rank.stream);
            });
        EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt8, op, rank.comm, rank.stream),
                  ncclInvalidArgument);
        EXPECT_EQ(ncclRedOpDestroy(op, rank.comm), ncclSuccess);
        EXPECT_EQ(ncclRedOpDestroy(op, rank.comm), ncclInvalidArgument);
      }
    };
    check(static_cast<float>(factor), DataType::float32, ncclFloat32);
    check(factor, DataType::float64, ncclFloat64);
    check(to_bfloat16(static_cast<float>(factor)), DataType::bfloat16, ncclBfloat16);
    check(to_float16(static_cast<float>(factor)), DataType::float16, ncclFloat16);
    check(to_fp8_e4m3(static_cast<float>(factor)), DataType::fp8_e4m3, ncclFloat8e4m3);
    EXPECT_EQ(ncclRedOpDestroy(ncclSum, rank.comm), ncclInvalidArgument);
  });
}

// Its input is copied first; not where it is one that calls do not take.
TEST_F(Collectives, AFactorOnTheDeviceChangesNothingOfWhatIsRefused) {
  on_threads(2, [&](int, ncclComm_t comm, cudaStream_t stream) {
    const std::vector<float> host(8, 1), untouched(8, -1);
    const Floats out(*api, untouched), factor(*api, {2});
    ncclRedOp_t op{};
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, factor.data(), ncclFloat32, ncclScalarDevice, comm), ncclSuccess);
    for (const ncclRedOp_t one : {ncclSum, op})
      EXPECT_EQ(ncclAllReduce(host.data(), out.data(), 8, ncclFloat32, one, comm, stream),
                ncclInvalidArgument);
    api->synchronize(stream);
    EXPECT_EQ(out.values(), untouched);
  });
}

// What graphs may refer to is kept, so there must not be a copy more with every call that is a bit longer.
TEST_F(Collectives, CopiesForAFactorOnTheDeviceStayFewAndValid) {
  on_threads(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
    constexpr std::size_t shortest = 10000, calls = 50;
    const Floats data(*api, std::vector<float>(2 * shortest, 1)), factor(*api, {1});
    ncclRedOp_t op{};
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, factor.data(), ncclFloat32, ncclScalarDevice, comm), ncclSuccess);
    const auto add = [&](std::size_t count) {
      return ncclAllReduce(data.data(), data.data(), count, ncclFloat32, op, comm, stream);
    };
    const std::size_t before = api->bytes_held();
    for (std::size_t count = shortest; count < shortest + calls; ++count) EXPECT_EQ(add(count), ncclSuccess);
    EXPECT_LT(api->bytes_held() - before, 10 * shortest * sizeof(float));

    api->refuses_memory = true;
    EXPECT_EQ(add(2 * shortest), ncclUnhandledCudaError);
    api->refuses_memory = false;
    EXPECT_EQ(add(shortest), ncclSuccess) << ncclGetLastError(comm);
    api->synchronize(stream);  // kernels read what is freed below
  });
}

TEST_F(Collectives, OneThreadHasAllRanks) {
  const std::vector<int> devices{0, 0, 1};
  const std::size_t n = devices.size();
  std::vector<ncclComm_t> comms(n);
  ASSERT_EQ(ncclCommInitAll(comms.data(), 3, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<gpu::Stream> streams(n);
  std::vector<std::unique_ptr<Floats>> in, out, sent;
  for (std::size_t r = 0; r < n; ++r) {
    api->set_device(devices[r]);
    streams[r] = api->create_stream();
    in.push_back(std::make_unique<Floats>(*api, std::vector<float>(3000, static_cast<float>(r + 1))));
    out.push_back(std::make_unique<Floats>(*api, std::vector<float>(3000)));
    sent.push_back(std::make_unique<Floats>(*api, std::vector<float>(3000)));
  }
  api->set_device(0);
  for (int time = 0; time < 2; ++time) {
    // Collectives and messages of several communicators, and a group within the group.
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t r = 0; r < n; ++r) {
      ASSERT_EQ(
          ncclAllReduce(in[r]->data(), out[r]->data(), 3000, ncclFloat32, ncclSum, comms[r], streams[r]),
          ncclSuccess);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(
          ncclSend(in[r]->data(), 3000, ncclFloat32, static_cast<int>((r + 1) % n), comms[r], streams[r]),
          ncclSuccess);
      ASSERT_EQ(ncclRecv(sent[r]->data(), 3000, ncclFloat32, static_cast<int>((r + n - 1) % n), comms[r],
                         streams[r]),
                ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    for (std::size_t r = 0; r < n; ++r) {
      api->synchronize(streams[r]);
      EXPECT_EQ(out[r]->values(), std::vector<float>(3000, 6));
      EXPECT_EQ(sent[r]->values(), std::vector<float>(3000, static_cast<float>((r + n - 1) % n + 1)));
    }
  }
  for (std::size_t r = 0; r < n; ++r) {
    int value = -1;
    EXPECT_EQ(ncclCommUserRank(comms[r], &value), ncclSuccess);
    EXPECT_EQ(value, static_cast<int>(r));
    EXPECT_EQ(ncclCommCount(comms[r], &value), ncclSuccess);
    EXPECT_EQ(value, 3);
    EXPECT_EQ(ncclCommCuDevice(comms[r], &value), ncclSuccess);
    EXPECT_EQ(value, devices[r]);
  }
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);  // one after the other
  for (const auto stream : streams) api->destroy_stream(stream);
}

TEST_F(Collectives, AReductionOfAnotherCommunicatorIsRefused) {
  constexpr std::array devices{0, 0};
  std::array<ncclComm_t, 2> comms{};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
  std::array<ncclRedOp_t, 2> ops{};
  for (const std::size_t r : {0, 1}) {
    auto factor = static_cast<float>(r);
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], &factor, ncclFloat32, ncclScalarHostImmediate, comms[r]),
              ncclSuccess);
  }
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ops[0], comms[1], nullptr), ncclInvalidArgument);
  expect_told("no reduction of this communicator");
  EXPECT_EQ(ncclRedOpDestroy(ops[0], comms[1]), ncclInvalidArgument);
  for (const std::size_t r : {0, 1}) EXPECT_EQ(ncclRedOpDestroy(ops[r], comms[r]), ncclSuccess);
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// To allocate may be to wait for the device, where those before wait for what is not launched yet.
TEST_F(Collectives, NothingIsAllocatedBetweenTheKernelsOfAThreadsRanks) {
  std::atomic<int> launched{0}, allocated_late{0};
  api->before = [&](std::string_view call) {
    if (call == "launch") ++launched;
    if (call == "allocate" && launched > 0) ++allocated_late;
  };
  constexpr std::array devices{0, 0};
  std::array<ncclComm_t, 2> comms{};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
  const std::array<gpu::Stream, 2> streams{api->create_stream(), api->create_stream()};
  std::array<ncclRedOp_t, 2> ops{};
  const Floats factor(*api, {2});
  for (const std::size_t r : {0, 1})
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], factor.data(), ncclFloat32, ncclScalarDevice, comms[r]),
              ncclSuccess);
  for (const std::size_t count : {8, 1000, 100000}) {
    const std::vector<float> ones(count, 1);
    const Floats first(*api, ones), second(*api, ones), first_scaled(*api, ones), second_scaled(*api, ones);
    const std::array<float*, 2> data{first.data(), second.data()};
    const std::array<float*, 2> scaled{first_scaled.data(), second_scaled.data()};
    launched = 0;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (const std::size_t r : {0, 1}) {
      EXPECT_EQ(ncclAllReduce(data[r], data[r], count, ncclFloat32, ncclSum, comms[r], streams[r]),
                ncclSuccess);
      EXPECT_EQ(ncclAllReduce(scaled[r], scaled[r], count, ncclFloat32, ops[r], comms[r], streams[r]),
                ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(launched, 4);
    EXPECT_EQ(allocated_late, 0) << count;
    for (const auto stream : streams) api->synchronize(stream);
    for (const auto* one : {&first, &second}) EXPECT_EQ(one->values(), std::vector<float>(count, 2));
    for (const auto* one : {&first_scaled, &second_scaled})
      EXPECT_EQ(one->values(), std::vector<float>(count, 4));
    launched = 0;
  }
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  for (const auto stream : streams) api->destroy_stream(stream);
}

TEST_F(Collectives, AGroupMayUseSeveralStreams) {
  on_threads(2, [&](int rank, ncclComm_t comm, cudaStream_t first) {
    const gpu::Stream second = api->create_stream(), third = api->create_stream();
    const Floats a(*api, std::vector<float>(100, 1)), b(*api, std::vector<float>(100));
    api->enqueue(second, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::fill_n(b.data(), 100, 5.0F);  // what the group sends
    });
    const Floats c(*api, std::vector<float>(100));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(a.data(), a.data(), 100, ncclFloat32, ncclSum, comm, first), ncclSuccess);
    ASSERT_EQ(ncclSend(b.data(), 100, ncclFloat32, 1 - rank, comm, second), ncclSuccess);
    // A stream that is through at once, after one that is not.
    ASSERT_EQ(ncclRecv(c.data(), 100, ncclFloat32, 1 - rank, comm, third), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    api->synchronize(third);
    EXPECT_EQ(c.values(), std::vector<float>(100, 5));
    api->synchronize(first);
    EXPECT_EQ(a.values(), std::vector<float>(100, 2));
    for (const auto stream : {second, third}) api->destroy_stream(stream);
  });
}

TEST_F(Collectives, AGroupMayHaveMoreMessagesThanAKernel) {
  constexpr int ranks = 3;
  // Ranks 0 and 1 have more than a kernel takes; rank 2 has its own in one.
  const auto between = [](int a, int b) { return a + b == 1 ? std::size_t{70} : std::size_t{10}; };
  const auto values = [&](int from, int to) {
    std::vector<float> all(between(from, to));
    std::iota(all.begin(), all.end(), static_cast<float>(10000 * from + 1000 * to));
    return all;
  };
  on_threads(ranks, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    std::vector<std::unique_ptr<Floats>> sent, received;
    for (int peer = 0; peer < ranks; ++peer) {
      sent.push_back(std::make_unique<Floats>(*api, values(rank, peer)));
      received.push_back(std::make_unique<Floats>(*api, std::vector<float>(between(rank, peer))));
    }
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (const bool sends : {rank == 1, rank != 1})
      for (int peer = 0; peer < ranks; ++peer)
        for (std::size_t i = 0; i < between(rank, peer); ++i) {
          const auto p = static_cast<std::size_t>(peer);
          EXPECT_EQ(sends ? ncclSend(sent[p]->data() + i, 1, ncclFloat32, peer, comm, stream)
                          : ncclRecv(received[p]->data() + i, 1, ncclFloat32, peer, comm, stream),
                    ncclSuccess);
        }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    api->synchronize(stream);
    for (int peer = 0; peer < ranks; ++peer)
      EXPECT_EQ(received[static_cast<std::size_t>(peer)]->values(), values(peer, rank));
  });
}

TEST_F(Collectives, BadCallsAreRefusedInNcclsWords) {
  on_threads(2, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    const Floats a(*api, std::vector<float>(8, 1));
    float host[8] = {};
    if (rank == 0) {  // alone: nothing reaches the other
      EXPECT_EQ(ncclAllReduce(host, a.data(), 8, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
      expect_told("plain host memory");
      EXPECT_EQ(ncclAllReduce(nullptr, a.data(), 8, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
      EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 8, static_cast<ncclDataType_t>(77), ncclSum, comm, stream),
                ncclInvalidArgument);
      expect_told("77 is no ncclDataType_t");
      EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 8, ncclFloat32, static_cast<ncclRedOp_t>(9), comm, stream),
                ncclInvalidArgument);
      ncclRedOp_t op = ncclSum;
      const auto scaled_by = [&](void* scalar) {
        return ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat32, ncclScalarDevice, comm);
      };
      EXPECT_EQ(scaled_by(host), ncclInvalidArgument);
      expect_told("the scalar is plain host memory");
      EXPECT_EQ(scaled_by(reinterpret_cast<std::byte*>(a.data()) + 1), ncclInvalidArgument);
      expect_told("the scalar is not aligned");
      EXPECT_EQ(ncclBroadcast(a.data(), a.data(), 8, ncclFloat32, 2, comm, stream), ncclInvalidArgument);
      expect_told("rank 2 does not exist");
      EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 8, ncclFloat32, ncclSum, nullptr, stream),
                ncclInvalidArgument);
      auto* never_made = reinterpret_cast<ncclComm_t>(&host);
      EXPECT_EQ(ncclSend(a.data(), 8, ncclFloat32, 1, never_made, stream), ncclInvalidArgument);
      expect_told("destroyed, aborted, or never made");
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
      // A group with a bad call does nothing, and says so at its end, too.
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
      EXPECT_EQ(ncclReduce(a.data(), a.data(), 8, ncclFloat32, ncclSum, 5, nullptr, stream),
                ncclInvalidArgument);
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      // A simulated one, too, but for errors.
      ncclSimInfo_t info{sizeof info, simulation_magic, version_code, 0};
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclAllReduce(a.data(), a.data(), 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
      EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
      EXPECT_EQ(info.estimatedTime, undefined_float);
    }
    ASSERT_EQ(ncclAllReduce(a.data(), a.data(), 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
    api->synchronize(stream);
    EXPECT_EQ(a.values(), std::vector<float>(8, 2));
  });
}

TEST_F(Collectives, AGroupWithABadCallRunsOnNoCommunicator) {
  constexpr std::array devices{0, 0};
  std::array<ncclComm_t, 2> comms{};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess) << ncclGetLastError(nullptr);
  const std::array<gpu::Stream, 2> streams{api->create_stream(), api->create_stream()};
  const std::vector<float> host(8, 1);
  const Floats first(*api, host), second(*api, host);
  const std::array<float*, 2> data{first.data(), second.data()};
  const auto adds = [&](std::size_t rank) {
    return ncclAllReduce(data[rank], data[rank], 8, ncclFloat32, ncclSum, comms[rank], streams[rank]);
  };
  const auto refuses = [&](const auto& bad_call) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(adds(0), ncclSuccess);
    EXPECT_EQ(bad_call(), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  };
  refuses([&] { return ncclAllReduce(host.data(), data[1], 8, ncclFloat32, ncclSum, comms[1], streams[1]); });
  refuses([&] { return ncclSend(data[1], 8, ncclFloat32, 2, comms[1], streams[1]); });
  refuses([&] { return ncclRecv(nullptr, 8, ncclFloat32, 0, comms[1], streams[1]); });
  // What is wrong with all of them is known at the end.
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(adds(0), ncclSuccess);
  EXPECT_EQ(ncclSend(data[1], 8, ncclFloat32, 1, comms[1], streams[1]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  expect_told("rank 1 sends itself 1 message(s) and receives 0");
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(adds(0), ncclSuccess);
  EXPECT_EQ(ncclSend(data[1], 8, ncclFloat32, 1, comms[1], streams[1]), ncclSuccess);
  EXPECT_EQ(ncclRecv(data[1], 4, ncclFloat32, 1, comms[1], streams[1]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  expect_told("does not match the send of this rank to itself");
  // Nothing reached the other rank.
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::size_t rank : {0, 1}) EXPECT_EQ(adds(rank), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (const auto stream : streams) api->synchronize(stream);
  EXPECT_EQ(first.values(), std::vector<float>(8, 2));
  EXPECT_EQ(second.values(), std::vector<float>(8, 2));
  for (const auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  for (const auto stream : streams) api->destroy_stream(stream);
}

}  // namespace
}  // namespace tutti::test
