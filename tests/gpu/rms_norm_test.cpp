// all_reduce with residual and norm in one kernel, against the same steps one after the other on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/emulated_memory.hpp"

namespace tutti::test {
namespace {

float decoded(DataType type, std::uint32_t bits) {
  if (type == DataType::float16) return to_float(float16{static_cast<std::uint16_t>(bits)});
  if (type == DataType::bfloat16) return to_float(bfloat16{static_cast<std::uint16_t>(bits)});
  return std::bit_cast<float>(bits);
}
std::uint32_t encoded(DataType type, float value) {
  if (type == DataType::float16) return to_float16(value).bits;
  if (type == DataType::bfloat16) return to_bfloat16(value).bits;
  return std::bit_cast<std::uint32_t>(value);
}

/// Elements of `type` in device memory.
class Rows {
 public:
  Rows(EmulatedApi& api, DataType type, std::size_t count)
      : api_(api), type_(type), count_(count), data_(api.allocate(count * size_of(type))) {}
  ~Rows() { api_.free(data_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  void put(const std::vector<float>& values) {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint32_t bits = encoded(type_, values[i]);
      std::memcpy(data_ + i * size_of(type_), &bits, size_of(type_));
    }
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, data_ + i * size_of(type_), size_of(type_));
      values[i] = decoded(type_, bits);
    }
    return values;
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  EmulatedApi& api_;
  DataType type_;
  std::size_t count_;
  std::byte* data_;
};

/// Values that `type` holds.
std::vector<float> random_values(DataType type, std::size_t count, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = decoded(type, encoded(type, normal(random)));
  return values;
}

std::vector<float> rounded(DataType type, std::vector<float> values) {
  for (float& value : values) value = decoded(type, encoded(type, value));
  return values;
}

/// In double precision.
std::vector<float> norm_of(const std::vector<float>& rows, const std::vector<float>& weight, float epsilon) {
  const std::size_t hidden = weight.size();
  std::vector<float> result(rows.size());
  for (std::size_t begin = 0; begin < rows.size(); begin += hidden) {
    double squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) squares += double{rows[begin + i]} * double{rows[begin + i]};
    const double root = std::sqrt(squares / static_cast<double>(hidden) + double{epsilon});
    for (std::size_t i = 0; i < hidden; ++i)
      result[begin + i] = static_cast<float>(double{rows[begin + i]} / root * double{weight[i]});
  }
  return result;
}

/// Half of the last place of `type`, relative, and what four float32 roundings add to it.
float bound(DataType type) {
  const int mantissa = type == DataType::float16 ? 10 : type == DataType::bfloat16 ? 7 : 23;
  return std::ldexp(1.0F, -mantissa - 1) + 8 * std::ldexp(1.0F, -24);
}

class RmsNormTest : public GpuTest {
 protected:
  void compare(Communicator& comm, Gpu& gpu, DataType type, std::size_t tokens, std::size_t hidden,
               bool in_place) {
    SCOPED_TRACE(std::string(name(type)) + " " + std::to_string(tokens) + " x " + std::to_string(hidden));
    constexpr float epsilon = 1e-5F;
    const std::size_t count = tokens * hidden;
    const auto mine = random_values(type, count, static_cast<unsigned>(comm.rank() + 1));
    const auto residual = random_values(type, count, 100), weight = random_values(type, hidden, 200);
    Rows in(*api, type, count), before(*api, type, count), scale(*api, type, hidden), out(*api, type, count),
        after(*api, type, count);
    in.put(mine);
    before.put(residual);
    scale.put(weight);
    AllReduceRmsNorm arguments;
    arguments.in = in.data();
    arguments.residual = before.data();
    arguments.weight = scale.data();
    arguments.out = in_place ? in.data() : out.data();
    arguments.residual_out = in_place ? before.data() : after.data();
    arguments.tokens = tokens;
    arguments.hidden = hidden;
    arguments.type = type;
    arguments.epsilon = epsilon;
    gpu.on(nullptr).all_reduce_rms_norm(arguments);
    api->synchronize(nullptr);
    ASSERT_NO_THROW(gpu.check());

    // The sums are defined to the bit: an all_reduce in float32, the residual added, one rounding.
    auto sums = mine;
    comm.all_reduce(std::span(sums));
    for (std::size_t i = 0; i < count; ++i) sums[i] += residual[i];
    sums = rounded(type, sums);
    ASSERT_EQ((in_place ? before : after).values(), sums);
    // So is the norm, but the reference is better than float32.
    const auto found = (in_place ? in : out).values(), wanted = norm_of(sums, weight, epsilon);
    for (std::size_t i = 0; i < count; ++i) {
      // float16's spacing does not shrink below 2^-24.
      const float slack = type == DataType::float16 ? std::ldexp(1.0F, -25) : 0.0F;
      ASSERT_NEAR(found[i], wanted[i], std::abs(wanted[i]) * bound(type) + slack) << i;
    }
  }
};

Options in_rank_order() {
  Options options = quick();
  options.rank_order = true;
  return options;
}

TEST_F(RmsNormTest, AsTheStepsOneAfterTheOther) {
  for (const int ranks : {1, 2, 3})
    run_local(
        ranks,
        [&](Communicator& comm) {
          Gpu gpu(comm, small);
          for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
            for (const auto& [tokens, hidden] :
                 std::vector<std::pair<std::size_t, std::size_t>>{{1, 8}, {5, 1003}, {2, 4096}})
              for (const bool in_place : {false, true}) compare(comm, gpu, type, tokens, hidden, in_place);
        },
        in_rank_order());
}

TEST_F(RmsNormTest, ManyRowsAreFoldedOnceEach) {
  run_local(
      3,
      [&](Communicator& comm) {
        Gpu gpu(comm, small);
        for (const bool in_place : {false, true}) compare(comm, gpu, DataType::float32, 29, 5000, in_place);
        compare(comm, gpu, DataType::bfloat16, 65, 4096, false);
      },
      in_rank_order());
}

TEST_F(RmsNormTest, BetweenHostsAndThroughHostMemory) {
  for (const GpuOptions& options : {through_host_memory(), hosts_of(1)})
    run_local(
        3,
        [&](Communicator& comm) {
          Gpu gpu(comm, options);
          compare(comm, gpu, DataType::bfloat16, 5, 1003, false);
          compare(comm, gpu, DataType::float32, 29, 5000, true);
        },
        in_rank_order());
}

TEST_F(RmsNormTest, BadArgumentsAreRefused) {
  run_local(2, [&](Communicator& comm) {
    Gpu gpu(comm, small);
    const Rows rows(*api, DataType::float32, 64), more(*api, DataType::float32, 64),
        weight(*api, DataType::float32, 16);
    AllReduceRmsNorm arguments;
    arguments.in = arguments.residual = rows.data();
    arguments.weight = weight.data();
    arguments.out = more.data();
    arguments.residual_out = rows.data();
    arguments.tokens = 4;
    arguments.hidden = 16;
    const auto refused = [&](AllReduceRmsNorm wrong, const char* text) {
      EXPECT_EQ(code_of([&] { gpu.on(nullptr).all_reduce_rms_norm(wrong); }, text),
                ErrorCode::invalid_argument);
    };
    auto wrong = arguments;
    wrong.type = DataType::int32;
    refused(wrong, "float32, float16 and bfloat16 only");
    wrong = arguments;
    wrong.weight = nullptr;
    refused(wrong, "is null");
    wrong = arguments;
    wrong.out = wrong.residual_out;
    refused(wrong, "the sums and the normalized output overlap");
    wrong.out = static_cast<std::byte*>(rows.data()) + 16;
    refused(wrong, "the sums and the normalized output overlap");
    wrong = arguments;
    wrong.residual = static_cast<std::byte*>(more.data()) + 16;
    refused(wrong, "an output overlaps an input");
    wrong = arguments;
    wrong.weight = static_cast<std::byte*>(more.data()) + 64;
    refused(wrong, "an output overlaps the weight");
    wrong = arguments;
    wrong.tokens = std::size_t{1} << 62;
    refused(wrong, "overflows");
    std::vector<float> host(64);
    wrong = arguments;
    wrong.residual = host.data();
    refused(wrong, "the residual is plain host memory");
  });
}

}  // namespace
}  // namespace tutti::test
