// The fold of a GPU block, thread by thread on the host, against the kernels of the CPU: the same bits.
#include "gpu/device/fold.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "kernels/fixture.hpp"

namespace tutti::test {
namespace {

/// As the kernel of a type and an operation does it.
template <class Block>
void fold_as(const Block& block, gpu::device::Fold fold, DataType type, ReduceOp op, std::size_t bytes) {
  fold.op = op;
  gpu::device::with_format(type, [&]<class Format>() {
    gpu::device::with_operation(op,
                                [&]<class Op>() { gpu::device::fold_bytes<Format, Op>(block, fold, bytes); });
  });
}

/// One thread of a block. A fold has no barriers, so the threads may run one after the other.
struct Thread {
  int index, count;
  [[nodiscard]] int thread() const { return index; }
  [[nodiscard]] int threads() const { return count; }
};

struct Folded {
  std::size_t count, sources, sinks, skew;
  int threads;
  bool together;          ///< all operands are skewed alike, so that vectors can be used
  bool in_place = false;  ///< the first sink is the last source
};

class DeviceFold : public testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  const DataType type = std::get<0>(GetParam());
  const ReduceOp op = std::get<1>(GetParam());
  std::mt19937_64 random{20251122};

  void check(const Folded& c, const kernels::FoldModifiers& modifiers) {
    const std::size_t bytes = c.count * size_of(type);
    std::vector<Buffer> sources, sinks, expected;
    std::vector<const std::byte*> from, from_expected;
    std::vector<std::byte*> to, to_expected;
    for (std::size_t s = 0; s < c.sources; ++s) {
      sources.emplace_back(bytes, (c.together ? c.skew : c.skew * (s + 1)) % 64);
      const auto elements = random_elements(type, random, c.count);
      if (bytes != 0) std::memcpy(sources.back().data(), elements.data(), bytes);
    }
    for (std::size_t k = 0; k < c.sinks; ++k) {
      sinks.emplace_back(bytes, (c.together ? c.skew : c.skew * (k + 5)) % 64);
      expected.emplace_back(bytes, 0);
    }
    for (const Buffer& source : sources) from.push_back(source.data());
    for (Buffer& sink : sinks) to.push_back(sink.data());
    for (Buffer& sink : expected) to_expected.push_back(sink.data());
    kernels::fold_for(type, op)(to_expected, from, c.count, modifiers);
    if (c.in_place) to[0] = sources.back().data();

    gpu::device::Fold fold;
    fold.sources = from.data();
    fold.sinks = to.data();
    fold.source_count = static_cast<std::uint32_t>(c.sources);
    fold.sink_count = static_cast<std::uint32_t>(c.sinks);
    fold.modifiers = {modifiers.scaled_sources, modifiers.factor, modifiers.divisor};
    for (int t = 0; t < c.threads; ++t) fold_as(Thread{t, c.threads}, fold, type, op, bytes);
    for (std::size_t k = 0; k < c.sinks; ++k) {
      const Buffer& sink = k == 0 && c.in_place ? sources.back() : sinks[k];
      const std::span<const std::byte> wanted(expected[k].data(), bytes);
      const auto [got, _] = std::mismatch(sink.data(), sink.data() + bytes, wanted.begin());
      ASSERT_TRUE(sink.holds(wanted))
          << c.count << " elements, " << c.sources << " sources, sink " << k << ", skew " << c.skew << ", "
          << c.threads << " threads: element " << static_cast<std::size_t>(got - sink.data()) / size_of(type);
      ASSERT_TRUE(sink.guards_intact()) << c.count << " elements, skew " << c.skew << ": wrote outside";
    }
  }
};

TEST_P(DeviceFold, HasTheBitsOfTheProcessorsFold) {
  for (const std::size_t count : {0, 1, 3, 15, 16, 17, 64, 333, 2050})
    for (const std::size_t sources : {1, 2, 3, 8})
      for (const std::size_t skew : {0, 8, 1})
        for (const int threads : {1, 5})
          for (const bool together : {true, false})
            check({count, sources, 1 + count % 3, skew * size_of(type), threads, together}, {});
}

TEST_P(DeviceFold, FoldsIntoASource) {
  for (const std::size_t count : {1, 65, 1000})
    for (const std::size_t skew : {0, 1}) check({count, 3, 2, skew * size_of(type), 4, true, true}, {});
}

TEST_P(DeviceFold, ScalesAndDividesAlike) {
  if (op != ReduceOp::sum && op != ReduceOp::average) return;  // nothing else is scaled or divided
  for (const double factor : {1.0, 0.37, -3.0, -1.5, 1e30})
    for (const std::int64_t divisor : {1, 3, 8}) {
      check({517, 3, 1, 0, 2, true}, {.scaled_sources = 5, .factor = factor, .divisor = divisor});
      check({517, 1, 2, 3 * size_of(type), 2, false},
            {.scaled_sources = 1, .factor = factor, .divisor = divisor});
    }
}

TEST(DeviceCopy, ReachesAnyAddress) {
  std::mt19937_64 random{1};
  for (const std::size_t bytes : {0, 1, 5, 64, 1000})
    for (std::size_t from = 0; from < 17; ++from)
      for (const std::size_t to : {0, 1, 4, 7}) {
        Buffer source(bytes, from), sink(bytes, to);
        const auto elements = random_elements(DataType::uint8, random, bytes);
        if (bytes != 0) std::memcpy(source.data(), elements.data(), bytes);
        const std::byte* const sources[] = {source.data()};
        std::byte* const sinks[] = {sink.data()};
        const gpu::device::Fold fold{sources, sinks, 1, 1, {}, {}};
        for (int t = 0; t < 3; ++t) fold_as(Thread{t, 3}, fold, DataType::float64, ReduceOp::sum, bytes);
        ASSERT_TRUE(sink.holds(elements) && sink.guards_intact())
            << bytes << " bytes from " << from << " to " << to;
      }
}

std::string case_name(const testing::TestParamInfo<std::tuple<DataType, ReduceOp>>& info) {
  return std::string(name(std::get<0>(info.param))) + "_" + std::string(name(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, DeviceFold,
                         testing::Combine(testing::ValuesIn(all_types), testing::ValuesIn(all_ops)),
                         case_name);

template <class Format, class T>
void expect_conversions_of_the_library(float (*to)(T), T (*from)(float)) {
  for (std::uint32_t code = 0; code <= std::numeric_limits<decltype(T{}.bits)>::max(); ++code) {
    const T small{static_cast<decltype(T{}.bits)>(code)};
    const float mine = Format::decode(small.bits), theirs = to(small);
    if (std::isnan(theirs))
      ASSERT_TRUE(std::isnan(mine)) << code;
    else
      ASSERT_EQ(std::bit_cast<std::uint32_t>(mine), std::bit_cast<std::uint32_t>(theirs)) << code;
  }
  for (std::uint64_t bits = 0; bits <= 0x7F800000U; bits += 4093)  // not a multiple of any format's spacing
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) | sign);
      ASSERT_EQ(Format::encode(value), from(value).bits) << value;
    }
}

TEST(DeviceFormats, ConvertAsTheLibraryDoes) {
  using namespace gpu::device;
  expect_conversions_of_the_library<Float16, float16>(to_float, to_float16);
  expect_conversions_of_the_library<BFloat16, bfloat16>(to_float, to_bfloat16);
  expect_conversions_of_the_library<E4M3, fp8_e4m3>(to_float, to_fp8_e4m3);
  expect_conversions_of_the_library<E5M2, fp8_e5m2>(to_float, to_fp8_e5m2);
}

}  // namespace
}  // namespace tutti::test
