#include "../../bench/peers/first_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStdout;

/// One rank, whose calls take the times that it is given.
class Scripted final : public bench::Backend {
 public:
  explicit Scripted(std::vector<double> seconds, int right_calls = 1000)
      : seconds_(std::move(seconds)), right_calls_(right_calls) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override { events += 'b'; }
  double max(double value) override {
    events += 'm';
    const bool is_answer = value == 0 || value == 1;  // whether results are right
    return is_answer ? value : seconds_.at(next_++);
  }
  [[nodiscard]] std::shared_ptr<void> attach(void* /*memory*/, std::size_t /*bytes*/) override {
    calls_at_attach.push_back(calls);
    return nullptr;
  }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    if (call.operation != bench::Operation::all_reduce) return {};
    return [=, this] {
      ++calls;
      events += 'c';
      if (right_calls_-- > 0) std::copy_n(in, call.total, out);
    };
  }

  int calls = 0;
  std::vector<int> calls_at_attach;
  std::string events;  ///< barriers, calls and questions for the largest

 private:
  std::vector<double> seconds_;
  std::size_t next_ = 0;
  int right_calls_;
};

const bench::Options options = [] {
  bench::Options mine;
  mine.library = "mine", mine.variant = "plain";
  return mine;
}();
const bench::Call all_reduce{bench::Operation::all_reduce, 4, 0, 1};
const bench::Call larger{bench::Operation::all_reduce, 64, 0, 1};
const bench::Call unknown{bench::Operation::all_gather, 4, 0, 1};

TEST(FirstCalls, AreToldBesideTheMedianOfTheNext) {
  // The first of each, then five of each in turn, twice.
  Scripted backend({100e-6, 200e-6, 5e-6, 10e-6, 1e-6,  20e-6, 9e-6, 30e-6, 2e-6,  40e-6, 4e-6,
                    50e-6,  6e-6,   8e-6, 7e-6,  60e-6, 8e-6,  9e-6, 70e-6, 90e-6, 9e-6,  80e-6});
  CaptureStdout();
  EXPECT_TRUE(bench::first_calls(backend, options, {all_reduce, unknown, larger}));
  const std::string text = GetCapturedStdout();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(R"("bytes":16,"first_us":100.0000,"next_us":4.0000,)"
                                    R"("swept_us":8.0000,"correct":true)"),
                          HasSubstr(R"("bytes":256,"first_us":200.0000,"next_us":30.0000,)"
                                    R"("swept_us":60.0000,"correct":true)"),
                          HasSubstr(R"("library":"mine","variant":"plain","op":"all_reduce","ranks":1)")));
}

TEST(FirstCalls, OfShortCallsComeBeforeTheBuffersOfLongOnes) {
  Scripted backend(std::vector<double>(22, 1e-6));
  CaptureStdout();
  EXPECT_TRUE(bench::first_calls(backend, options, {all_reduce, larger}));
  GetCapturedStdout();
  EXPECT_EQ(backend.calls_at_attach, (std::vector{0, 0, 1, 1}));
}

TEST(FirstCalls, StartWithAllAwakeAndAreOverBeforeAnythingElse) {
  Scripted backend(std::vector<double>(11, 1e-6));
  CaptureStdout();
  EXPECT_TRUE(bench::first_calls(backend, options, {all_reduce}));
  GetCapturedStdout();
  EXPECT_THAT(backend.events, testing::StartsWith("bbcbm"));
}

TEST(FirstCalls, ThatAreWrongAreToldToBe) {
  for (const int right : {0, 5, 10}) {
    Scripted backend(std::vector<double>(11, 1e-6), right);
    CaptureStdout();
    EXPECT_FALSE(bench::first_calls(backend, options, {all_reduce})) << right;
    EXPECT_THAT(GetCapturedStdout(), HasSubstr(R"("correct":false)")) << right;
  }
}

}  // namespace
