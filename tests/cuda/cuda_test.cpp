// Gpu on a real device. Ranks are threads on device 0, and processes where IPC is meant.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <span>
#include <string>
#include <thread>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "bootstrap/rendezvous.hpp"
#include "command.hpp"
#include "gpu/exercise.hpp"
#include "kernels/fixture.hpp"
#include "thrown.hpp"

namespace tutti::test {
namespace {

void must(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

class CudaMemory final : public DeviceMemory {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    must(cudaMalloc(&memory, bytes));
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory) override { static_cast<void>(cudaFree(memory)); }
  void put(std::byte* to, const void* from, std::size_t bytes) override {
    must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void get(void* to, const std::byte* from, std::size_t bytes) override {
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  void synchronize(void* stream) override { must(cudaStreamSynchronize(static_cast<cudaStream_t>(stream))); }
};

/// Ranks that share a GPU must not meet in the default stream.
struct OwnStream {
  OwnStream() { must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~OwnStream() { static_cast<void>(cudaStreamDestroy(stream)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t stream = nullptr;
};

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (const cudaError_t result = cudaGetDeviceCount(&devices); result != cudaSuccess || devices == 0)
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(result);
  }
  CudaMemory memory;
};

TEST_F(CudaTest, EveryOperationAsOnHostMemory) {
  for (const int ranks : {1, 2, 4})
    run_local(ranks, [&](Communicator& comm) {
      Gpu gpu(comm);
      const OwnStream own;
      for (const std::size_t count : {1, 700, 20011, 3000001}) exercise(memory, comm, gpu, count, own.stream);
    });
}

TEST_F(CudaTest, EveryOperationBetweenHosts) {
  for (const char* transport : {"", "tcp"})
    for (const int on_a_host : {1, 2}) {
      Options options;
      options.transport = transport;
      run_local(
          2 * on_a_host,
          [&](Communicator& comm) {
            Gpu gpu(comm, {.host_size = on_a_host});
            ASSERT_NE(gpu.explain().find("the network"), std::string::npos);
            const OwnStream own;
            for (const std::size_t count : {1, 20011, 3000001})
              exercise(memory, comm, gpu, count, own.stream);
          },
          options);
    }
}

TEST_F(CudaTest, EveryOperationThroughPageLockedMemory) {
  run_local(3, [&](Communicator& comm) {
    Gpu gpu(comm, {.peer_access = false});
    const OwnStream own;
    for (const std::size_t count : {1, 20011, 3000001}) exercise(memory, comm, gpu, count, own.stream);
  });
}

TEST_F(CudaTest, TheBitsOfTheProcessorsInEveryTypeAndOperation) {
  constexpr std::size_t count = 70'001;  // all pairs of bytes
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm);
        const OwnStream own;
        for (const DataType type : all_types)
          for (const ReduceOp op : all_ops) {
            std::mt19937_64 random{static_cast<std::uint64_t>(comm.rank())};
            const auto input = random_elements(type, random, count);
            std::vector<std::byte> wanted(input.size());
            comm.all_reduce(input.data(), wanted.data(), count, type, op);
            const OnGpu<std::byte> in(memory, input), out(memory, input.size());
            comm.barrier();
            gpu.on(own.stream).all_reduce(in.data(), out.data(), count, type, op);
            memory.synchronize(own.stream);
            gpu.check();
            ASSERT_TRUE(out.values() == wanted) << name(type) << ", " << name(op);
          }
      },
      [] {
        Options options;
        options.rank_order = true;  // one order of reduction, whichever algorithm
        return options;
      }());
}

/// What a rank captured, replayed `times` times when all ranks are ready.
void replay(Communicator& comm, cudaStream_t stream, int times) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  must(cudaStreamEndCapture(stream, &graph));
  must(cudaGraphInstantiate(&executable, graph, 0));
  must(cudaGraphUpload(executable, stream));  // which the first launch would do while the others' kernels run
  must(cudaStreamSynchronize(stream));
  comm.barrier();
  for (int time = 0; time < times; ++time) must(cudaGraphLaunch(executable, stream));
  must(cudaStreamSynchronize(stream));
  comm.barrier();
  must(cudaGraphExecDestroy(executable));
  must(cudaGraphDestroy(graph));
}

TEST_F(CudaTest, CapturedCallsAreReplayed) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm);
    const OwnStream own;
    for (const std::size_t count : {1000, 1000000}) {
      const OnGpu<float> buffer(memory, std::vector<float>(count, 1));
      must(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal));
      gpu.on(own.stream).all_reduce(buffer.data(), buffer.data(), count, DataType::float32);
      replay(comm, own.stream, 3);
      gpu.check();
      ASSERT_EQ(buffer.values(), std::vector<float>(count, 8));
      comm.barrier();
    }
  });
}

TEST_F(CudaTest, AnAbortEndsARunningKernelWithinASecond) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm);
    const OwnStream own;
    const OnGpu<float> buffer(memory, 64);
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return comm.abort("the test says so");
    }
    gpu.on(own.stream).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
    const auto begun = std::chrono::steady_clock::now();
    memory.synchronize(own.stream);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(1500));
    EXPECT_THROW(gpu.check(), Error);
  });
}

TEST_F(CudaTest, ADeadlineIsReported) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, {.timeout = std::chrono::milliseconds(200)});
    const OwnStream own;
    const OnGpu<float> buffer(memory, 64);
    if (comm.rank() == 0) {
      gpu.on(own.stream).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32);
      memory.synchronize(own.stream);
      const auto error = thrown_by([&] { gpu.check(); });
      EXPECT_EQ(error.code, ErrorCode::timeout) << error.text;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
  });
}

TEST_F(CudaTest, HostMemoryIsRefused) {
  run_local(1, [&](Communicator& comm) {
    Gpu gpu(comm);
    std::vector<float> host(64);
    EXPECT_THROW(gpu.on(nullptr).all_reduce(host.data(), host.data(), 64, DataType::float32), Error);
  });
}

TEST_F(CudaTest, TwoCommunicatorsInOneGraph) {
  run_local(2, [&](Communicator& comm) {
    Communicator other = comm.duplicate();
    Gpu first(comm), second(other);
    const OwnStream own;
    const OnGpu<float> buffer(memory, std::vector<float>(20000, 1));
    must(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal));
    first.on(own.stream).all_reduce(buffer.data(), buffer.data(), 20000, DataType::float32);
    second.on(own.stream).all_reduce(buffer.data(), buffer.data(), 20000, DataType::float32);
    replay(comm, own.stream, 2);
    first.check();
    second.check();
    EXPECT_EQ(buffer.values(), std::vector<float>(20000, 16));
  });
}

TEST_F(CudaTest, MemoryIsAllocatedDuringACaptureOfAnyMode) {
  for (const auto mode :
       {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed})
    run_local(mode == cudaStreamCaptureModeGlobal ? 1 : 2, [&](Communicator& comm) {
      Gpu gpu(comm);
      const OwnStream own;
      const OnGpu<float> in(memory, std::vector<float>(20000, 1));
      comm.barrier();
      must(cudaStreamBeginCapture(own.stream, mode));
      const auto out = gpu.allocate<float>(20000);
      gpu.on(own.stream).all_reduce(in.data(), out.data(), 20000, DataType::float32);
      replay(comm, own.stream, 1);
      gpu.check();
      std::vector<float> found(20000);
      memory.get(found.data(), reinterpret_cast<const std::byte*>(out.data()), 80000);
      EXPECT_EQ(found, std::vector<float>(20000, static_cast<float>(comm.size())));
      comm.barrier();
    });
}

TEST_F(CudaTest, MessagesInAGroup) {
  run_local(3, [&](Communicator& comm) {
    Gpu gpu(comm);
    const OwnStream own;
    constexpr std::size_t count = 300007;
    const Rank next = (comm.rank() + 1) % 3, before = (comm.rank() + 2) % 3;
    const OnGpu<float> out(memory, numbers(count, comm.rank())), in(memory, count);
    comm.barrier();
    auto group = gpu.group(own.stream);
    group.send(out.data(), count, DataType::float32, next);
    group.receive(in.data(), count, DataType::float32, before);
    group.run();
    memory.synchronize(own.stream);
    gpu.check();
    EXPECT_EQ(in.values(), numbers(count, before));
    comm.barrier();
  });
}

TEST_F(CudaTest, CountsThatOnlyTheDeviceKnows) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm);
    const OwnStream own;
    // Rank r sends r + 1 elements to rank 0 and 100000 to rank 1.
    const auto mine = static_cast<std::uint64_t>(comm.rank() + 1);
    const bool first = comm.rank() == 0;
    const OnGpu<std::uint64_t> sent(memory, std::vector<std::uint64_t>{mine, 100000}),
        received(memory,
                 first ? std::vector<std::uint64_t>{1, 2} : std::vector<std::uint64_t>{100000, 100000});
    const OnGpu<float> in(memory, numbers(mine + 100000, comm.rank())),
        out(memory, std::vector<float>(200000, -1));
    comm.barrier();
    gpu.on(own.stream)
        .all_to_all_v(in.data(), {.counts = sent.data(), .room = mine + 100000}, out.data(),
                      {.counts = received.data(), .room = 200000}, DataType::float32);
    memory.synchronize(own.stream);
    gpu.check();
    std::vector<float> wanted(200000, -1);
    std::size_t at = 0;
    for (Rank from = 0; from < 2; ++from) {
      const auto theirs = numbers(static_cast<std::size_t>(from) + 1 + 100000, from);
      const std::size_t begin = first ? 0 : static_cast<std::size_t>(from) + 1;
      const std::size_t length = first ? static_cast<std::size_t>(from) + 1 : 100000;
      std::copy_n(theirs.begin() + static_cast<std::ptrdiff_t>(begin), length,
                  wanted.begin() + static_cast<std::ptrdiff_t>(at));
      at += length;
    }
    EXPECT_EQ(out.values(), wanted);
    comm.barrier();
  });
}

TEST_F(CudaTest, TheNormIsThatOfTheSum) {
  const auto expect = [&](Communicator& comm) {
    Gpu gpu(comm);
    const OwnStream own;
    constexpr std::size_t tokens = 16, hidden = 8192, count = tokens * hidden;
    const OnGpu<float> in(memory, numbers(count, comm.rank())),
        residual(memory, std::vector<float>(count, 1)), weight(memory, std::vector<float>(hidden, 2)),
        out(memory, count), sums(memory, count);
    comm.barrier();
    gpu.on(own.stream)
        .all_reduce_rms_norm({.in = in.data(),
                              .residual = residual.data(),
                              .weight = weight.data(),
                              .out = out.data(),
                              .residual_out = sums.data(),
                              .tokens = tokens,
                              .hidden = hidden,
                              .type = DataType::float32});
    memory.synchronize(own.stream);
    gpu.check();
    std::vector<float> wanted(count, 1);
    const auto normalized = out.values();
    for (int r = 0; r < comm.size(); ++r) {
      const auto theirs = numbers(count, r);
      for (std::size_t i = 0; i < count; ++i) wanted[i] += theirs[i];
    }
    EXPECT_EQ(sums.values(), wanted);
    for (std::size_t row = 0; row < tokens; ++row) {
      double squares = 0;
      for (std::size_t i = row * hidden; i < (row + 1) * hidden; ++i)
        squares += static_cast<double>(wanted[i]) * wanted[i];
      const double factor = 2 / std::sqrt(squares / hidden + 1e-6);
      for (std::size_t i = row * hidden; i < (row + 1) * hidden; ++i)
        ASSERT_NEAR(normalized[i], wanted[i] * factor, 1e-5 * wanted[i]) << i;
    }
    comm.barrier();
  };
  run_local(2, expect);  // every rank folds all
  run_local(3, expect);  // each row is folded once
}

TEST_F(CudaTest, WhatWouldNotEndIsRefused) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm);
    const OnGpu<float> buffer(memory, 64);
    EXPECT_THROW(gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32), Error);
    EXPECT_THROW(gpu.on(cudaStreamLegacy).all_reduce(buffer.data(), buffer.data(), 64, DataType::float32),
                 Error);
    comm.barrier();
  });
  // More blocks than any device runs side by side.
  run_local(64, [](Communicator& comm) { EXPECT_THROW(Gpu(comm, {.blocks = 128}), Error); });
}

// Started by the test below, as ranks of their own; CUDA does not survive a fork.
TEST(LaunchedRank, OfProcesses) {
  CudaMemory memory;
  auto comm = Communicator::from_environment();
  Gpu gpu(comm);
  const std::string ways = gpu.explain();
  EXPECT_TRUE(ways.find("a file descriptor of its memory") != std::string::npos ||
              ways.find("CUDA IPC") != std::string::npos)
      << ways;
  const OwnStream own;
  for (const std::size_t count : {100, 100000}) exercise(memory, comm, gpu, count, own.stream);
  {
    // Straight between buffers: allocated for it, and of cudaMalloc, which is opened by CUDA IPC.
    constexpr std::size_t count = 1'000'000;
    const auto allocated = gpu.allocate<float>(count);
    const OnGpu<float> plain(memory, count);
    const auto registration = gpu.register_memory(plain.data(), count * sizeof(float));
    const auto input = numbers(count, comm.rank());
    auto wanted = input;
    comm.all_reduce(std::span(wanted));
    memory.put(reinterpret_cast<std::byte*>(allocated.data()), input.data(), count * sizeof(float));
    comm.barrier();
    const Call call{.operation = Operation::all_reduce,
                    .type = DataType::float32,
                    .in = allocated.data(),
                    .out = plain.data(),
                    .count = count};
    EXPECT_NE(gpu.explain(call).find("everybody's buffers"), std::string::npos);
    gpu.on(own.stream).call(call);
    memory.synchronize(own.stream);
    gpu.check();
    EXPECT_EQ(plain.values(), wanted);
    comm.barrier();
  }
  Gpu apart(comm, {.peer_access = false});
  exercise(memory, comm, apart, 100000, own.stream);
}

TEST_F(CudaTest, EveryOperationBetweenProcesses) {
  const std::string id = bootstrap::reserve_id("lo").to_string();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto start = [&](int rank) {
    return run_command("TUTTI_RANK=" + std::to_string(rank) + " TUTTI_SIZE=2 TUTTI_ID='" + id + "' '" +
                       program + "' --gtest_filter=LaunchedRank.OfProcesses");
  };
  auto other = std::async(std::launch::async, start, 1);
  for (const Outcome& outcome : {start(0), other.get()}) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("[  PASSED  ] 1 test."), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace tutti::test
