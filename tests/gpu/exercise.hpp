/// \file
/// Every operation on device buffers against the communicator's own on host memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <tutti/gpu.hpp>

namespace tutti::test {

/// The memory of a device, real or not.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;
  virtual void put(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void get(void* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void synchronize(void* stream) = 0;
};

/// Device memory with elements.
template <class T>
class OnGpu {
 public:
  OnGpu(DeviceMemory& memory, std::size_t count)
      : memory_(memory), count_(count), data_(memory.allocate(count * sizeof(T) + 1)) {}
  OnGpu(DeviceMemory& memory, const std::vector<T>& values) : OnGpu(memory, values.size()) {
    memory_.put(data_, values.data(), count_ * sizeof(T));
  }
  ~OnGpu() { memory_.free(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(data_); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(count_);
    memory_.get(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  DeviceMemory& memory_;
  std::size_t count_;
  std::byte* data_;
};

/// Returns when this rank, which waits for nothing, has heard that another one failed.
inline void hear_of_failure(Communicator& comm) {
  while (true) try {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      comm.barrier();
    } catch (const Error&) {
      return;
    }
}

/// Small integers, whose sums are exact in any order.
inline std::vector<float> numbers(std::size_t count, Rank rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11);
  return values;
}

/// Calls `operation(ops, in, out)` on host memory and on the device, and compares the outputs.
template <class Operation>
void compare(DeviceMemory& memory, Communicator& comm, Gpu& gpu, std::size_t in_count, std::size_t out_count,
             const Operation& operation, const std::string& what, void* stream) {
  const auto input = numbers(in_count, comm.rank());
  std::vector<float> wanted(out_count, -1);
  operation(comm, input.data(), wanted.data());
  const OnGpu<float> in(memory, input), out(memory, std::vector<float>(out_count, -1));
  comm.barrier();
  auto ops = gpu.on(stream);
  operation(ops, in.data(), out.data());
  memory.synchronize(stream);
  ASSERT_NO_THROW(gpu.check()) << what;
  ASSERT_EQ(out.values(), wanted) << what << ", rank " << comm.rank();
  // To free device memory waits for what runs on the device, so no kernel may wait for a rank that does it.
  comm.barrier();
}

inline void exercise(DeviceMemory& memory, Communicator& comm, Gpu& gpu, std::size_t count,
                     void* stream = nullptr) {
  const auto n = static_cast<std::size_t>(comm.size());
  const auto check = [&](std::size_t in, std::size_t out, const auto& operation, const char* what) {
    compare(memory, comm, gpu, in, out, operation, what + (" of " + std::to_string(count)), stream);
  };
  const Rank root = comm.size() - 1;
  constexpr auto type = DataType::float32;
  check(
      count, count, [&](auto& o, const float* i, float* x) { o.all_reduce(i, x, count, type); },
      "all_reduce");
  check(
      count, count,
      [&](auto& o, const float* i, float* x) { o.all_reduce(i, x, count, type, ReduceOp::average); },
      "average");
  check(
      count, count,
      [&](auto& o, const float* i, float* x) { o.all_reduce(i, x, count, type, scaled_sum(0.5)); },
      "scaled sum");
  check(
      count, count,
      [&](auto& o, const float* i, float* x) { o.reduce(i, x, count, type, root, ReduceOp::max); }, "reduce");
  check(
      n * count, count, [&](auto& o, const float* i, float* x) { o.reduce_scatter(i, x, count, type); },
      "reduce_scatter");
  check(
      count, n * count, [&](auto& o, const float* i, float* x) { o.all_gather(i, x, count, type); },
      "all_gather");
  check(
      count, count, [&](auto& o, const float* i, float* x) { o.broadcast(i, x, count, type, root); },
      "broadcast");
  check(
      count, n * count, [&](auto& o, const float* i, float* x) { o.gather(i, x, count, type, root); },
      "gather");
  check(
      n * count, count, [&](auto& o, const float* i, float* x) { o.scatter(i, x, count, type, root); },
      "scatter");
  check(
      n * count, n * count, [&](auto& o, const float* i, float* x) { o.all_to_all(i, x, count, type); },
      "all_to_all");
  check(
      0, 0, [&](auto& o, const float*, float*) { o.barrier(); }, "barrier");

  std::vector<std::size_t> counts(n), sent(n);
  for (std::size_t r = 0; r < n; ++r) counts[r] = count / 2 * r + r % 2;
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t mine = counts[static_cast<std::size_t>(comm.rank())];
  check(
      mine, all, [&](auto& o, const float* i, float* x) { o.all_gather_v(i, x, counts, {}, type); },
      "all_gather_v");
  check(
      all, mine, [&](auto& o, const float* i, float* x) { o.reduce_scatter_v(i, x, counts, {}, type); },
      "reduce_scatter_v");
  std::fill(sent.begin(), sent.end(), mine);
  check(
      n * mine, all,
      [&](auto& o, const float* i, float* x) { o.all_to_all_v(i, sent, {}, x, counts, {}, type); },
      "all_to_all_v");
}

}  // namespace tutti::test
