// What the tests of the kernels share: inputs, guarded buffers, and a choice of instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "kernels/targets.hpp"

#include "hwy/highway.h"
#include "kernels/fold.hpp"

namespace tutti::test {

inline constexpr std::array all_types{DataType::int8,    DataType::uint8,    DataType::int32,
                                      DataType::uint32,  DataType::int64,    DataType::uint64,
                                      DataType::float16, DataType::bfloat16, DataType::float32,
                                      DataType::float64, DataType::fp8_e4m3, DataType::fp8_e5m2};
inline constexpr std::array all_ops{ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::average};
static_assert(all_types.size() == data_type_count && all_ops.size() == reduce_op_count);

/// While it lives, the kernels are those of one instruction set.
class WithInstructionSet {
 public:
  explicit WithInstructionSet(std::int64_t target) { choose(target); }
  ~WithInstructionSet() { choose(0); }
  WithInstructionSet(const WithInstructionSet&) = delete;
  WithInstructionSet& operator=(const WithInstructionSet&) = delete;

  /// Those that are in the library and that this processor has.
  static std::vector<std::int64_t> all() { return hwy::SupportedAndGeneratedTargets(); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Bytes at a chosen distance from a cache line's start, with guards on both sides in which nobody may write.
/// They end where the allocation ends if `exact`, so that AddressSanitizer sees each read past them.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t skew, bool exact = false)
      : storage_(lead + skew + bytes + (exact ? 0 : guard), filler), bytes_(bytes) {
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(storage_.data()) % 64;
    start_ = guard + (64 - misaligned) % 64 + skew;
    if (exact) start_ = storage_.size() - bytes;
  }
  [[nodiscard]] std::byte* data() { return storage_.data() + start_; }
  [[nodiscard]] const std::byte* data() const { return storage_.data() + start_; }
  [[nodiscard]] bool holds(std::span<const std::byte> expected) const {
    return bytes_ == 0 || std::memcmp(data(), expected.data(), bytes_) == 0;
  }
  [[nodiscard]] bool guards_intact() const {
    const auto untouched = [](std::span<const std::byte> guarded) {  // at once: most of the time goes here
      return guarded.empty() || (guarded.front() == filler &&
                                 std::memcmp(guarded.data(), guarded.data() + 1, guarded.size() - 1) == 0);
    };
    const std::span all(storage_);
    return untouched(all.first(start_)) && untouched(all.subspan(start_ + bytes_));
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr std::size_t lead = guard + 64;
  static constexpr std::byte filler{0xA5};
  std::vector<std::byte> storage_;
  std::size_t bytes_;
  std::size_t start_ = 0;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Small integers, which add exactly, among numbers that round, and the values that are special.
template <class T>
std::vector<std::byte> random_native_floats(std::mt19937_64& random, std::size_t count) {
  using Limits = std::numeric_limits<T>;
  const std::array special{
      T(0),          -T(0),         Limits::infinity(),   -Limits::infinity(),   Limits::quiet_NaN(),
      Limits::max(), Limits::min(), Limits::denorm_min(), -Limits::denorm_min(), -Limits::quiet_NaN()};
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t kind = random() % 8;
    if (kind == 0)
      value = special.at(random() % special.size());
    else if (kind < 4)
      value = static_cast<T>(static_cast<int>(random() % 33) - 16);
    else
      value = std::uniform_real_distribution<T>(-3, 3)(random);
  }
  return bytes_of(values);
}

/// Integers and small floats: any bits, so overflow, NaN, infinities and subnormals are there.
inline std::vector<std::byte> random_elements(DataType type, std::mt19937_64& random, std::size_t count) {
  if (type == DataType::float32) return random_native_floats<float>(random, count);
  if (type == DataType::float64) return random_native_floats<double>(random, count);
  std::vector<std::uint64_t> bits((count * size_of(type) + 7) / 8);
  for (auto& word : bits) word = random();
  std::vector<std::byte> bytes = bytes_of(bits);
  bytes.resize(count * size_of(type));
  return bytes;
}

}  // namespace tutti::test
