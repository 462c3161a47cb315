// Times of operations on GPU buffers, ranks as threads on one device, beside what a copy of the same bytes
// takes there in the same run, and beside the figures that the library is to reach. Every figure is the
// median of the batches.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "command_line.hpp"
#include "run_tool.hpp"

namespace {

using tutti::DataType;

constexpr int batches = 9;
constexpr std::size_t MiB = std::size_t{1} << 20;

void must(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// A stream, two events, and device memory, of one rank.
struct Device {
  explicit Device(std::size_t bytes) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    for (void** buffer : {&in, &out}) {
      must(cudaMalloc(buffer, bytes));
      // Small numbers: zeros may move faster.
      must(cudaMemsetAsync(*buffer, 0x3D, bytes, stream));
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

/// Microseconds of one call within a graph of `calls`, which takes the host out of the measurement.
double time_in_graph(const Device& device, tutti::Communicator& comm, int calls,
                     const std::function<void()>& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  must(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) call();
  must(cudaStreamEndCapture(device.stream, &graph));
  must(cudaGraphInstantiate(&executable, graph, 0));
  // Else the first launch does it, while others' kernels run.
  must(cudaGraphUpload(executable, device.stream));
  must(cudaStreamSynchronize(device.stream));
  const auto run = [&] {
    comm.barrier();
    return device.time([&] { must(cudaGraphLaunch(executable, device.stream)); });
  };
  // A device that was idle takes a while until its clocks are up.
  const auto begun = std::chrono::steady_clock::now();
  for (int warm = 0; warm == 0;) {
    run();
    warm = std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(150) ? 1 : 0;
    comm.broadcast(std::span(&warm, 1), 0);
  }
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) times.push_back(run() / calls);
  must(cudaGraphExecDestroy(executable));
  must(cudaGraphDestroy(graph));
  return median(times);
}

/// One line of the table.
struct Figure {
  std::string what;
  double value = 0;
  const char* unit = "";
  double wanted = 0;
  bool at_least = false;  ///< else at most
};

void print(const Figure& f) {
  const bool reached = f.at_least ? f.value >= f.wanted : f.value <= f.wanted;
  std::printf("%-52s %10.2f %-4s %s %-8g %s\n", f.what.c_str(), f.value, f.unit,
              f.at_least ? "at least" : "at most ", f.wanted, reached ? "reached" : "MISSED");
  std::fflush(stdout);
}

/// `copies`: bytes that every rank must at least read and write, as multiples of those of a copy of its
/// larger buffer.
struct Workload {
  const char* name;
  bool folds;
  double copies;
  std::function<void(tutti::OnStream&, const Device&, std::size_t count, DataType, std::size_t ranks)> call;
};

std::vector<Workload> workloads(int size) {
  const double one_side_is_a_share = (1 + 1.0 / size) / 2;  // all_gather reads one, reduce_scatter writes one
  return {
      {"all_reduce", true, 1,
       [](auto& ops, const Device& d, std::size_t n, DataType t, std::size_t) {
         ops.all_reduce(d.in, d.out, n, t);
       }},
      {"all_gather", false, one_side_is_a_share,
       [](auto& ops, const Device& d, std::size_t n, DataType t, std::size_t ranks) {
         ops.all_gather(d.in, d.out, n / ranks, t);
       }},
      {"reduce_scatter", true, one_side_is_a_share,
       [](auto& ops, const Device& d, std::size_t n, DataType t, std::size_t ranks) {
         ops.reduce_scatter(d.in, d.out, n / ranks, t);
       }},
      {"all_to_all", false, 1, [](auto& ops, const Device& d, std::size_t n, DataType t, std::size_t ranks) {
         ops.all_to_all(d.in, d.out, n / ranks, t);
       }}};
}

struct Settings {
  int ranks = 2;
  std::size_t largest = 1024 * MiB;
  int blocks = 32;
};

/// Microseconds, by all ranks at once.
double time_of_copy(tutti::Communicator& comm, const Device& device, std::size_t bytes) {
  return time_in_graph(device, comm, 4, [&] {
    must(cudaMemcpyAsync(device.out, device.in, bytes, cudaMemcpyDeviceToDevice, device.stream));
  });
}

/// Percent of what a copy of the same bytes by all ranks at once reaches.
double percent_of_copy(tutti::Communicator& comm, tutti::Gpu& gpu, const Device& device,
                       const Workload& workload, std::size_t bytes, DataType type) {
  auto ops = gpu.on(device.stream);
  const std::size_t count = bytes / tutti::size_of(type);
  const double us = time_in_graph(device, comm, 4, [&] {
    workload.call(ops, device, count, type, static_cast<std::size_t>(comm.size()));
  });
  gpu.check();
  return 100 * workload.copies * time_of_copy(comm, device, bytes) / us;
}

void measure_bandwidth(tutti::Communicator& comm, const Settings& settings) {
  const Device device(settings.largest);
  tutti::Gpu gpu(comm, {.blocks = settings.blocks});
  const double copy = time_of_copy(comm, device, 256 * MiB);
  if (comm.rank() == 0)
    std::printf(
        "  roofline: all ranks copy 256 MiB at once, %.0f GB/s read and as much written; %d blocks a rank\n",
        static_cast<double>(256 * MiB) * comm.size() / copy / 1e3, settings.blocks);
  for (const auto& workload : workloads(comm.size()))
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::fp8_e4m3})
      for (const std::size_t bytes : {256 * MiB, 1024 * MiB}) {
        if (bytes > settings.largest || (type == DataType::fp8_e4m3 && !workload.folds)) continue;
        const double percent = percent_of_copy(comm, gpu, device, workload, bytes, type);
        if (comm.rank() == 0)
          print({std::string(workload.name) + ", " + std::string(tutti::name(type)) + ", " +
                     std::to_string(bytes / MiB) + " MiB, of a copy",
                 percent, "%", 80, true});
      }
}

void measure_latency(tutti::Communicator& comm) {
  const Device device(MiB);
  tutti::Gpu gpu(comm);
  if (comm.rank() == 0) std::printf("  %s\n", gpu.explain().c_str());
  auto ops = gpu.on(device.stream);
  for (const auto& [bytes, wanted] : {std::pair<std::size_t, double>{1024, 5}, {8192, 6}}) {
    const double us = time_in_graph(device, comm, 100, [&, n = bytes / sizeof(float)] {
      ops.all_reduce(device.in, device.out, n, DataType::float32);
    });
    const std::string what = "all_reduce of " + std::to_string(bytes) + " bytes in a graph";
    if (comm.rank() == 0 && comm.size() == 2) print({what, us, "us", wanted});
    if (comm.rank() == 0 && comm.size() != 2) std::printf("  %-50s %10.2f us\n", what.c_str(), us);
  }
  // Few enough not to wait for room in the stream's queue.
  std::vector<double> times;
  constexpr int calls = 100;
  for (int batch = 0; batch <= batches; ++batch) {
    comm.barrier();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) ops.all_reduce(device.in, device.out, 256, DataType::float32);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    must(cudaStreamSynchronize(device.stream));
    if (batch > 0) times.push_back(took.count() / calls);
  }
  gpu.check();
  if (comm.rank() == 0) print({"host cost of a call outside a graph", median(times), "us", 5});
}

/// Start-up, with a warm context, and the device memory that it takes.
void measure_start(tutti::Communicator& comm) {
  must(cudaFree(nullptr));  // the context is there
  std::vector<double> times;
  double held = 0;
  for (int batch = 0; batch < 5; ++batch) {
    std::size_t before = 0, after = 0, total = 0;
    comm.barrier();
    must(cudaMemGetInfo(&before, &total));
    comm.barrier();
    const auto begun = std::chrono::steady_clock::now();
    const tutti::Gpu gpu(comm);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    comm.barrier();
    must(cudaMemGetInfo(&after, &total));
    comm.barrier();
    times.push_back(took.count());
    held = (static_cast<double>(before) - static_cast<double>(after)) / MiB / comm.size();
  }
  if (comm.rank() != 0) return;
  print({"start-up of a Gpu", median(times), "ms", 300});
  print({"device memory of an idle Gpu, a rank", held, "MiB", 32});
}

/// How many blocks it takes.
void sweep_blocks(tutti::Communicator& comm) {
  const Device device(256 * MiB);
  const auto all_reduce = workloads(comm.size()).front();
  double best = 0, at_sixteen = 0;
  for (const int blocks : {4, 8, 16, 32, 64}) {
    std::optional<tutti::Gpu> gpu;
    try {
      gpu.emplace(comm, tutti::GpuOptions{.blocks = blocks});
    } catch (const tutti::Error& error) {  // on all ranks: so many do not fit
      if (error.code() != tutti::ErrorCode::invalid_argument) throw;
      if (comm.rank() == 0) std::printf("  %2d blocks a rank do not fit\n", blocks);
      continue;
    }
    const double percent = percent_of_copy(comm, *gpu, device, all_reduce, 256 * MiB, DataType::float32);
    if (comm.rank() == 0) std::printf("  %2d blocks a rank: %6.2f %% of a copy\n", blocks, percent);
    best = std::max(best, percent);
    if (blocks == 16) at_sixteen = percent;
  }
  if (comm.rank() == 0)
    print({"16 blocks, of the most that any number reaches", 100 * at_sixteen / best, "%", 90, true});
}

/// Not a figure to reach: what the network half costs on this machine.
void measure_other_ways(tutti::Communicator& comm) {
  const Device device(64 * MiB);
  const std::pair<const char*, tutti::GpuOptions> ways[] = {{"page-locked memory", {.peer_access = false}},
                                                            {"the network (shm)", {.host_size = 1}}};
  for (const auto& [name, options] : ways) {
    tutti::Gpu gpu(comm, options);
    auto ops = gpu.on(device.stream);
    for (const std::size_t bytes : {std::size_t{1024}, 64 * MiB}) {
      const double us = time_in_graph(device, comm, bytes < MiB ? 50 : 2, [&] {
        ops.all_reduce(device.in, device.out, bytes / sizeof(float), DataType::float32);
      });
      gpu.check();
      if (comm.rank() == 0)
        std::printf("  all_reduce of %9zu bytes through %-20s %10.2f us %8.2f GB/s\n", bytes, name, us,
                    static_cast<double>(bytes) / us / 1e3);
    }
  }
}

/// all_reduce, residual and norm of 16 tokens x 8192 in bfloat16: in one kernel, and as an all_reduce and a
/// kernel that does the rest, which is the fused one of one rank.
void measure_norm(tutti::Communicator& comm) {
  constexpr std::size_t bytes = MiB, calls = 100;
  tutti::Gpu gpu(comm);
  auto alone = *comm.split(comm.rank());
  tutti::Gpu own(alone);
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
  if (comm.rank() != 0) return;
  std::printf("  all_reduce + residual + RMS norm, 16 x 8192: fused %.2f us, two kernels %.2f us\n", fused,
              separate);
  print({"fused all_reduce and RMS norm, saved", 100 * (1 - fused / separate), "%", 30, true});
}

struct Section {
  const char* name;
  std::function<void(tutti::Communicator&)> measure;
};

/// One that fails does not keep the others from being measured.
bool run(const Section& section, int ranks) {
  try {
    tutti::run_local(ranks, section.measure);
    return true;
  } catch (const std::exception& error) {
    std::printf("%-52s FAILED: %s\n", section.name, error.what());
    std::fflush(stdout);
    return false;
  }
}

int measure_all(int argc, char** argv) {
  CLI::App app("Figures of operations on GPU buffers, ranks as threads on one device.");
  Settings settings;
  app.add_option("--ranks", settings.ranks, "Ranks")->check(CLI::Range(1, 8));
  app.add_option("--largest", settings.largest, "Bytes of the longest calls, at least 256 MiB")
      ->transform(tutti::size());
  app.add_option("--blocks", settings.blocks, "GpuOptions::blocks of long calls")->check(CLI::Range(1, 128));
  tutti::take_no_octal_numbers(app);
  CLI11_PARSE(app, argc, argv);
  settings.largest = std::max(settings.largest, 256 * MiB);
  const Section sections[] = {
      {"start-up", measure_start},
      {"latency", measure_latency},
      {"fused norm", measure_norm},
      {"bandwidth", [&](tutti::Communicator& comm) { measure_bandwidth(comm, settings); }},
      {"blocks", sweep_blocks},
      {"other ways", measure_other_ways}};
  int failed = 0;
  for (const Section& section : sections) failed += run(section, settings.ranks) ? 0 : 1;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tutti::run_tool("gpu-bench", [&] { return measure_all(argc, argv); });
}
