// Every kernel on every instruction set against the reference, bit by bit.
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/fixture.hpp"
#include "kernels/reference.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t most = sanitized ? 513 : 4097;  // what sanitizers look for is at the ends
constexpr std::array<std::size_t, 18> counts{0,  1,  2,  3,  7,  8,  15,  16,       17,
                                             31, 32, 33, 63, 64, 65, 100, most / 4, most};

struct Shape {
  std::size_t count;
  std::size_t sinks;
  std::size_t skew;   ///< of the first sink; the others and the sources follow with other ones
  int in_place = -1;  ///< the source that is also the last sink
};

class FoldTest : public testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  const DataType type = std::get<0>(GetParam());
  const ReduceOp op = std::get<1>(GetParam());
  std::mt19937_64 random{20240611};
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::byte> expected;
  kernels::FoldModifiers modifiers;

  void prepare(std::size_t sources) {
    inputs.clear();
    std::vector<const std::byte*> pointers;
    for (std::size_t s = 0; s < sources; ++s) inputs.push_back(random_elements(type, random, most));
    for (const auto& input : inputs) pointers.push_back(input.data());
    expected = reference_fold(type, op, pointers, most, modifiers);
  }

  /// Folds the first elements of `inputs` on the instruction set in use and compares with `expected`.
  void check(const Shape& shape) const {
    const std::size_t bytes = shape.count * size_of(type);
    std::vector<Buffer> sources;
    std::vector<Buffer> sinks;
    std::vector<const std::byte*> source_pointers;
    std::vector<std::byte*> sink_pointers;
    sources.reserve(inputs.size());
    sinks.reserve(shape.sinks);
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      Buffer& source =
          sources.emplace_back(bytes, shape.skew * (s + 3) % 64, static_cast<int>(s) != shape.in_place);
      if (bytes != 0) std::memcpy(source.data(), inputs[s].data(), bytes);
      source_pointers.push_back(source.data());
    }
    for (std::size_t k = 0; k < shape.sinks; ++k) {
      Buffer& sink = sinks.emplace_back(bytes, (shape.skew + k * 24) % 64);
      const bool last = k + 1 == shape.sinks;
      const auto reused = static_cast<std::size_t>(shape.in_place);
      sink_pointers.push_back(shape.in_place >= 0 && last ? sources[reused].data() : sink.data());
    }
    kernels::fold_for(type, op)(sink_pointers, source_pointers, shape.count, modifiers);
    const std::span<const std::byte> wanted(expected.data(), bytes);
    for (std::size_t k = 0; k < shape.sinks; ++k) {
      const bool reused = shape.in_place >= 0 && k + 1 == shape.sinks;
      const Buffer& sink = reused ? sources[static_cast<std::size_t>(shape.in_place)] : sinks[k];
      ASSERT_TRUE(sink.holds(wanted))
          << describe(shape) << ", sink " << k << ", element " << first_wrong(sink, wanted);
      ASSERT_TRUE(sink.guards_intact()) << describe(shape) << ", sink " << k << ": wrote outside";
    }
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const std::span<const std::byte> unchanged(inputs[s].data(), bytes);
      if (static_cast<int>(s) == shape.in_place) continue;
      ASSERT_TRUE(sources[s].holds(unchanged)) << describe(shape) << ": wrote into source " << s;
    }
  }

 private:
  std::size_t first_wrong(const Buffer& sink, std::span<const std::byte> wanted) const {
    const auto [got, _] = std::mismatch(sink.data(), sink.data() + wanted.size(), wanted.begin());
    return static_cast<std::size_t>(got - sink.data()) / size_of(type);
  }
  std::string describe(const Shape& shape) const {
    return std::string(kernels::instruction_set()) + ": " + std::to_string(inputs.size()) + " sources, " +
           std::to_string(shape.sinks) + " sinks, " + std::to_string(shape.count) + " elements, skew " +
           std::to_string(shape.skew) + ", in place " + std::to_string(shape.in_place);
  }
};

TEST_P(FoldTest, EqualsReference) {
  for (const std::size_t sources : {1, 2, 3, 5, 8}) {
    prepare(sources);
    for (const std::int64_t target : WithInstructionSet::all()) {
      const WithInstructionSet chosen(target);
      for (const std::size_t count : counts) {
        for (const std::size_t sinks : {1, 2, 3}) {
          for (const std::size_t skew : {0, 1, 4, 33}) ASSERT_NO_FATAL_FAILURE(check({count, sinks, skew}));
        }
      }
    }
  }
}

TEST_P(FoldTest, SinkMayBeASource) {
  for (const std::size_t sources : {1, 2, 3}) {
    prepare(sources);
    for (const std::int64_t target : WithInstructionSet::all()) {
      const WithInstructionSet chosen(target);
      for (const std::size_t count : counts) {
        for (const std::size_t sinks : {1, 2}) {
          for (int s = 0; s < static_cast<int>(sources); ++s) {
            ASSERT_NO_FATAL_FAILURE(check({count, sinks, 8, s}));
          }
        }
      }
    }
  }
}

TEST_P(FoldTest, ScalesDividesAndStreams) {
  const std::array<kernels::FoldModifiers, 9> all{{
      {.divisor = 3},
      {.divisor = 8, .streaming_sinks = 1},
      {.scaled_sources = 0b101, .factor = 0.3},
      {.scaled_sources = ~std::uint64_t{0}, .factor = -1.5, .divisor = 200, .streaming_sinks = 0b110},
      {.scaled_sources = 0b10, .factor = 1e30},
      {.scaled_sources = 0b1, .factor = 1.0, .streaming_sinks = ~std::uint64_t{0}},
      {.streaming_sinks = 0b11},
      {.shared_sinks = ~std::uint64_t{0}},
      {.divisor = 2, .streaming_sinks = 0b01, .shared_sinks = 0b10},
  }};
  for (const auto& chosen_modifiers : all) {
    modifiers = chosen_modifiers;
    for (const std::size_t sources : {1, 2, 5}) {
      prepare(sources);
      for (const std::int64_t target : WithInstructionSet::all()) {
        const WithInstructionSet chosen(target);
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{64}, std::size_t{100}, most}) {
          for (const std::size_t sinks : {1, 2, 3}) {
            for (const std::size_t skew : {0, 1, 8, 40}) ASSERT_NO_FATAL_FAILURE(check({count, sinks, skew}));
          }
        }
        ASSERT_NO_FATAL_FAILURE(check({most, 2, 8, 0}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FoldTest,
                         testing::Combine(testing::ValuesIn(all_types), testing::ValuesIn(all_ops)),
                         [](const auto& instance) {
                           return std::string(name(std::get<0>(instance.param))) + "_" +
                                  std::string(name(std::get<1>(instance.param)));
                         });

}  // namespace
}  // namespace tutti::test
