#include "communicator/reference.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace tutti::test {

namespace {

// Inputs of reductions: integers so few and small that no order of folding rounds in any type.
int reduction_input(ReduceOp op, DataType type, std::uint32_t hash) {
  const bool narrow = size_of(type) < 4;
  if (op == ReduceOp::product) return 1 + static_cast<int>(hash % 2);
  if (op == ReduceOp::min || op == ReduceOp::max) return static_cast<int>(hash % 8);
  return static_cast<int>(hash % (narrow ? 2 : 4096));
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Integers wrap; floats are rounded once.
void encode(DataType type, long long integer, double real, std::byte* to) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return put(to, static_cast<std::uint8_t>(integer));
    case DataType::int32:
    case DataType::uint32:
      return put(to, static_cast<std::uint32_t>(integer));
    case DataType::int64:
    case DataType::uint64:
      return put(to, integer);
    case DataType::float16:
      return put(to, to_float16(static_cast<float>(real)));
    case DataType::bfloat16:
      return put(to, to_bfloat16(static_cast<float>(real)));
    case DataType::float32:
      return put(to, static_cast<float>(real));
    case DataType::float64:
      return put(to, real);
    case DataType::fp8_e4m3:
      return put(to, to_fp8_e4m3(static_cast<float>(real)));
    case DataType::fp8_e5m2:
      return put(to, to_fp8_e5m2(static_cast<float>(real)));
  }
}

// The average of integers truncates what their type holds.
long long wrapped(DataType type, long long value) {
  switch (type) {
    case DataType::int8:
      return static_cast<std::int8_t>(value);
    case DataType::uint8:
      return static_cast<std::uint8_t>(value);
    case DataType::int32:
      return static_cast<std::int32_t>(value);
    case DataType::uint32:
      return static_cast<std::uint32_t>(value);
    default:
      return value;
  }
}

template <class T>
T fold(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}

void input_element(const Exercise& e, Rank rank, std::size_t index, std::byte* to) {
  const std::uint32_t hash =
      mix(mix(e.seed, static_cast<std::uint32_t>(rank)), static_cast<std::uint32_t>(index));
  if (reduces(e.operation)) {
    const int value = reduction_input(e.reduction.op, e.type, hash);
    encode(e.type, value, value, to);
    return;
  }
  const std::array<std::uint32_t, 2> bytes{hash, ~hash};
  std::memcpy(to, bytes.data(), size_of(e.type));
}

void folded_element(const Exercise& e, int size, std::size_t index, std::byte* to) {
  long long integer = 0;
  double real = 0;
  for (Rank r = 0; r < size; ++r) {
    const std::uint32_t hash =
        mix(mix(e.seed, static_cast<std::uint32_t>(r)), static_cast<std::uint32_t>(index));
    double value = reduction_input(e.reduction.op, e.type, hash);
    if (!e.factors.empty()) value *= e.factors[static_cast<std::size_t>(r)];
    const auto whole = static_cast<long long>(value);  // integers truncate the product
    integer = r == 0 ? whole : fold(e.reduction.op, integer, whole);
    real = r == 0 ? value : fold(e.reduction.op, real, value);
  }
  if (e.reduction.op == ReduceOp::average) {
    // float32 is the type in which narrower floats are divided.
    real = e.type == DataType::float64
               ? real / size
               : static_cast<double>(static_cast<float>(real) / static_cast<float>(size));
    integer = wrapped(e.type, integer) / size;
  }
  encode(e.type, integer, real, to);
}

// One a thread, kept: ThreadSanitizer takes long over memory that was not there before.
std::span<std::byte> room_for(std::size_t bytes) {
  thread_local std::vector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return std::span(memory).first(bytes);
}

}  // namespace

std::span<const std::byte> inputs(const Exercise& exercise, Rank rank, std::size_t first, std::size_t count) {
  const std::size_t element = size_of(exercise.type);
  const auto all = room_for(count * element);
  for (std::size_t i = 0; i < count; ++i) input_element(exercise, rank, first + i, all.data() + i * element);
  return all;
}

std::span<const std::byte> reductions(const Exercise& exercise, int ranks, std::size_t first,
                                      std::size_t count) {
  const std::size_t element = size_of(exercise.type);
  const auto all = room_for(count * element);
  for (std::size_t i = 0; i < count; ++i)
    folded_element(exercise, ranks, first + i, all.data() + i * element);
  return all;
}

}  // namespace tutti::test
