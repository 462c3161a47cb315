#include "../../bench/peers/harness.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/file_descriptor.hpp"

namespace {

/// One rank, whose calls copy their input and count those that got the one of the call before.
class Counting final : public bench::Backend {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override {}
  double max(double value) override { return value; }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    return [=, this] {
      const std::span<const float> input(in, call.total);
      if (std::ranges::equal(input, before_)) ++same;
      before_.assign(input.begin(), input.end());
      std::copy_n(in, call.total, out);
    };
  }
  int same = 0;

 private:
  std::vector<float> before_;
};

TEST(Harness, WhatRewritesItsInputsDoesSoFromItsFirstCallOn) {
  bench::Options rewriting;
  rewriting.points = {"all_reduce:256"};
  rewriting.modes = {"rewritten"};
  rewriting.seconds = 0.001;
  Counting backend;
  testing::internal::CaptureStdout();
  EXPECT_TRUE(bench::run(backend, rewriting));
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(backend.same, 1);  // the call after the last one, which checks
}

TEST(Harness, LostResultsAreAFailure) {
  for (const bool first : {false, true}) {
    bench::Options lost;
    lost.points = {"all_reduce:256"};
    lost.modes = {"unchanged"};
    lost.first = first;
    lost.seconds = 0.001;
    Counting backend;
    std::fflush(stdout);
    const tutti::FileDescriptor before(::dup(STDOUT_FILENO)), full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ::dup2(full.get(), STDOUT_FILENO);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(bench::run(backend, lost));
    ::dup2(before.get(), STDOUT_FILENO);
    std::clearerr(stdout);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: cannot write the standard output\n");
  }
}

TEST(Harness, ABatchIsOfNoMoreCallsThanCanBeCounted) {
  EXPECT_EQ(bench::calls_of_batch(12, 0.25), 4);
  EXPECT_EQ(bench::calls_of_batch(12, 5), 1);
  EXPECT_EQ(bench::calls_of_batch(3600, 20e-9), bench::most_calls);
  EXPECT_EQ(bench::calls_of_batch(3600, 0), bench::most_calls);
}

TEST(Harness, PointsAreAnOperationAndANumberOfBytes) {
  Counting backend;
  EXPECT_EQ(bench::parse_point("all_reduce:1024", backend).bytes(), 1024U);
  EXPECT_EQ(bench::parse_point("barrier:0", backend).bytes(), 0U);
  for (const char* wrong : {"all_reduce", "all_reduce:", "all_reduce:8K", "all_reduce:-1", "all_reduce:010",
                            "juggle:8", "all_reduce:18446744073709551615"})
    EXPECT_THROW((void)bench::parse_point(wrong, backend), std::invalid_argument) << wrong;
}

}  // namespace
