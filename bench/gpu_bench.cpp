// Times of operations on GPU buffers, ranks as threads on one device, beside what a copy of the same bytes
// takes there. Every figure is the median of the batches.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <vector>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

namespace {

constexpr int batches = 9;

void must(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

/// A stream, two events, and device memory, of one rank.
struct Device {
  explicit Device(std::size_t bytes) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    for (void** buffer : {&in, &out}) {
      must(cudaMalloc(buffer, bytes));
      must(cudaMemsetAsync(*buffer, 0, bytes, stream));
    }
    must(cudaStreamSynchronize(stream));
  }
  ~Device() {
    static_cast<void>(cudaFree(in));
    static_cast<void>(cudaFree(out));
    static_cast<void>(cudaEventDestroy(begin));
    static_cast<void>(cudaEventDestroy(end));
    static_cast<void>(cudaStreamDestroy(stream));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Microseconds of `work` on the stream.
  double time(const std::function<void()>& work) const {
    must(cudaEventRecord(begin, stream));
    work();
    must(cudaEventRecord(end, stream));
    must(cudaEventSynchronize(end));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e3;
  }

  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  void* in = nullptr;
  void* out = nullptr;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
  return times[batches / 2];
}

/// Microseconds of one call within a graph of `calls`, which takes the host out of the measurement.
double time_in_graph(const Device& device, tutti::Communicator& comm, int calls,
                     const std::function<void()>& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  must(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) call();
  must(cudaStreamEndCapture(device.stream, &graph));
  must(cudaGraphInstantiate(&executable, graph, 0));
  std::vector<double> times;
  for (int batch = 0; batch <= batches; ++batch) {
    comm.barrier();
    const double time = device.time([&] { must(cudaGraphLaunch(executable, device.stream)); });
    if (batch > 0) times.push_back(time / calls);
  }
  must(cudaGraphExecDestroy(executable));
  must(cudaGraphDestroy(graph));
  return median(times);
}

struct Settings {
  int ranks = 2, blocks = 16;
  std::size_t largest = std::size_t{256} << 20;
};

void run(tutti::Communicator& comm, const Settings& settings) {
  using tutti::DataType;
  tutti::Gpu gpu(comm, {.blocks = settings.blocks});
  const Device device(settings.largest);
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (comm.rank() == 0)
    std::printf("%s\n%-15s %12s %10s %10s %12s\n", gpu.explain().c_str(), "operation", "bytes", "us", "GB/s",
                "copy us");
  auto ops = gpu.on(device.stream);
  const std::vector<std::pair<const char*, std::function<void(std::size_t)>>> operations{
      {"all_reduce", [&](std::size_t n) { ops.all_reduce(device.in, device.out, n, DataType::float32); }},
      {"all_gather",
       [&](std::size_t n) { ops.all_gather(device.in, device.out, n / ranks, DataType::float32); }},
      {"reduce_scatter",
       [&](std::size_t n) { ops.reduce_scatter(device.in, device.out, n / ranks, DataType::float32); }},
      {"all_to_all",
       [&](std::size_t n) { ops.all_to_all(device.in, device.out, n / ranks, DataType::float32); }}};
  for (const auto& [name, operation] : operations)
    for (std::size_t bytes = 1024; bytes <= settings.largest; bytes *= 8) {
      const int calls = bytes < (std::size_t{1} << 20) ? 100 : 4;
      const double us = time_in_graph(device, comm, calls, [&] { operation(bytes / sizeof(float)); });
      // All ranks copy at once, as they do in the operation.
      const double copy = time_in_graph(device, comm, calls, [&] {
        must(cudaMemcpyAsync(device.out, device.in, bytes, cudaMemcpyDeviceToDevice, device.stream));
      });
      gpu.check();
      if (comm.rank() == 0)
        std::printf("%-15s %12zu %10.2f %10.2f %12.2f\n", name, bytes, us,
                    static_cast<double>(bytes) / us / 1e3, copy);
    }
}

/// all_reduce, residual and norm of 16 tokens x 8192 in bfloat16: in one kernel, and as an all_reduce and a
/// kernel that does the rest, which is the fused one of one rank.
void run_norm(tutti::Communicator& comm, const Settings& settings) {
  constexpr std::size_t bytes = std::size_t{1} << 20, calls = 100;
  tutti::Gpu gpu(comm, {.blocks = settings.blocks});
  auto alone = *comm.split(comm.rank());
  tutti::Gpu own(alone, {.blocks = settings.blocks});
  const Device device(4 * bytes);
  auto* const base = static_cast<std::byte*>(device.out);
  tutti::AllReduceRmsNorm norm;
  norm.in = device.in;
  norm.residual = base;
  norm.weight = base + bytes;
  norm.out = base + 2 * bytes;
  norm.residual_out = base + 3 * bytes;
  norm.tokens = 16;
  norm.hidden = 8192;
  const std::size_t count = norm.tokens * norm.hidden;
  auto rest = norm;
  rest.in = static_cast<std::byte*>(device.in) + bytes;
  const double fused =
      time_in_graph(device, comm, calls, [&] { gpu.on(device.stream).all_reduce_rms_norm(norm); });
  const double separate = time_in_graph(device, comm, calls, [&] {
    gpu.on(device.stream).all_reduce(norm.in, const_cast<void*>(rest.in), count, norm.type);
    own.on(device.stream).all_reduce_rms_norm(rest);
  });
  gpu.check();
  own.check();
  if (comm.rank() == 0)
    std::printf(
        "all_reduce + residual + RMS norm, 16 x 8192: fused %.2f us, two kernels %.2f us (%.0f %% saved)\n",
        fused, separate, 100 * (1 - fused / separate));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times of operations on GPU buffers, ranks as threads on one device.");
  Settings settings;
  app.add_option("--ranks", settings.ranks, "Ranks")->check(CLI::Range(1, 8));
  app.add_option("--blocks", settings.blocks, "Most blocks a launch")->check(CLI::Range(1, 128));
  app.add_option("--largest", settings.largest, "Bytes of the longest calls")
      ->transform(CLI::AsSizeValue(false));
  CLI11_PARSE(app, argc, argv);
  try {
    tutti::run_local(settings.ranks, [&](tutti::Communicator& comm) {
      run(comm, settings);
      run_norm(comm, settings);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
