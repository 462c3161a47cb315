#include "perf/pattern.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"

namespace tutti::perf {

namespace {

constexpr std::size_t period_length = 1021;

/// Integers of at most this magnitude, and their sums up to it, are exact in the type.
constexpr std::int64_t exact_limit(DataType type) {
  switch (type) {
    case DataType::int8:
      return 127;
    case DataType::uint8:
      return 255;
    case DataType::float16:
      return 2048;
    case DataType::bfloat16:
      return 256;
    case DataType::fp8_e4m3:
      return 16;
    case DataType::fp8_e5m2:
      return 8;
    default:
      return 1 << 20;
  }
}

constexpr bool is_unsigned(DataType type) {
  return type == DataType::uint8 || type == DataType::uint32 || type == DataType::uint64;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// numerator / denominator in the type: exact when the denominator is 1, else rounded as ReduceOp::average
/// says.
void encode(DataType type, std::int64_t numerator, int denominator, std::byte* to) {
  const std::int64_t quotient = numerator / denominator;
  const float single = static_cast<float>(numerator) / static_cast<float>(denominator);
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return put(to, static_cast<std::uint8_t>(quotient));
    case DataType::int32:
    case DataType::uint32:
      return put(to, static_cast<std::uint32_t>(quotient));
    case DataType::int64:
    case DataType::uint64:
      return put(to, quotient);
    case DataType::float16:
      return put(to, to_float16(single));
    case DataType::bfloat16:
      return put(to, to_bfloat16(single));
    case DataType::fp8_e4m3:
      return put(to, to_fp8_e4m3(single));
    case DataType::fp8_e5m2:
      return put(to, to_fp8_e5m2(single));
    case DataType::float32:
      return put(to, single);
    case DataType::float64:
      return put(to, static_cast<double>(numerator) / denominator);
  }
}

/// A number of [0, bound].
std::int64_t pick(std::uint64_t bits, std::int64_t bound) {
  return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(bound + 1));
}

}  // namespace

Pattern::Pattern(DataType type, std::optional<Reduction> reduction, int ranks, std::uint64_t seed)
    : type_(type), reduction_(reduction), ranks_(ranks), seed_(seed) {}

/// Of all that distinguishes an element.
std::uint64_t Pattern::hash(Rank rank, int block, std::size_t index) const {
  std::uint64_t x = seed_;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(block), index % period_length})
    x = splitmix64(x + part);
  return x;
}

std::int64_t Pattern::contribution(Rank rank, int block, std::size_t index) const {
  const std::uint64_t bits = hash(rank, block, index);
  const std::int64_t sign = !is_unsigned(type_) && (bits >> 63) != 0 ? -1 : 1;
  std::int64_t limit = exact_limit(type_);
  // Where a partial result could leave the exact range, only some ranks contribute to an element, with
  // another seed others: this rank's turn.
  const auto ranks = static_cast<std::uint64_t>(ranks_);
  const auto turn =
      static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) + index % ranks + seed_ % ranks) % ranks);
  switch (reduction_->op) {
    case ReduceOp::min:
    case ReduceOp::max:
      return sign * pick(bits, limit);
    case ReduceOp::product: {
      constexpr std::int64_t max_twos = 6;  // 2^6 is exact in every type
      return sign * (turn < max_twos ? 1 + pick(bits, 1) : 1);
    }
    case ReduceOp::sum:
    case ReduceOp::average: {
      if (reduction_->factor != 1) limit /= mulsum_factor;
      const std::int64_t bound = std::max<std::int64_t>(limit / ranks_, 1);
      return turn < limit ? sign * pick(bits, bound) : 0;
    }
  }
  return 0;
}

std::int64_t Pattern::fold(int block, std::size_t index) const {
  std::int64_t result = contribution(0, block, index);
  for (Rank rank = 1; rank < ranks_; ++rank) {
    const std::int64_t next = contribution(rank, block, index);
    switch (reduction_->op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += next;
        break;
      case ReduceOp::product:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
    }
  }
  return reduction_->factor != 1 ? result * mulsum_factor : result;
}

std::vector<std::byte> Pattern::period_of(const Part& part) const {
  const std::size_t width = size_of(type_);
  std::vector<std::byte> period(period_length * width);
  for (std::size_t i = 0; i < period_length; ++i) {
    std::byte* const to = period.data() + i * width;
    if (!reduction_) {
      const std::uint64_t bits = hash(part.source, part.block, i);
      std::memcpy(to, &bits, width);
    } else if (part.source == reduced) {
      encode(type_, fold(part.block, i), reduction_->op == ReduceOp::average ? ranks_ : 1, to);
    } else {
      encode(type_, contribution(part.source, part.block, i), 1, to);
    }
  }
  return period;
}

void Pattern::fill(std::byte* buffer, std::span<const Part> parts) const {
  const std::size_t width = size_of(type_);
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    const std::vector<std::byte> period = period_of(part);
    for (std::size_t done = 0; done < part.count; done += period_length)
      std::memcpy(buffer + (part.first + done) * width, period.data(),
                  std::min(period_length, part.count - done) * width);
  }
}

std::uint64_t Pattern::count_wrong(const std::byte* buffer, std::span<const Part> parts) const {
  const std::size_t width = size_of(type_);
  std::uint64_t wrong = 0;
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    const std::vector<std::byte> period = period_of(part);
    for (std::size_t done = 0; done < part.count; done += period_length) {
      const std::byte* const found = buffer + (part.first + done) * width;
      const std::size_t count = std::min(period_length, part.count - done);
      if (std::memcmp(found, period.data(), count * width) == 0) continue;
      for (std::size_t i = 0; i < count; ++i)
        wrong += std::memcmp(found + i * width, period.data() + i * width, width) != 0;
    }
  }
  return wrong;
}

}  // namespace tutti::perf
