#include "../../bench/peers/point.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace {

constexpr double call_seconds = 0.02;

/// One of four ranks, whose others take the processor time for rewriting that it is told.
class OneOfFour final : public bench::Backend {
 public:
  OneOfFour(int rank, std::vector<double> of_others) : rank_(rank), of_others_(std::move(of_others)) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return 4; }
  void barrier() override {}
  double max(double value) override {
    asked.push_back(value);
    const std::size_t turn = asked.size() - 1;
    return turn < of_others_.size() ? std::max(value, of_others_[turn]) : value;
  }
  std::function<void()> prepare(const bench::Call& /*call*/, float* /*in*/, float* /*out*/) override {
    return [] { std::this_thread::sleep_for(std::chrono::duration<double>(call_seconds)); };
  }
  std::vector<double> asked;

 private:
  int rank_;
  std::vector<double> of_others_;
};

/// One rank, whose calls copy their input until they are told to write nothing.
class Copying final : public bench::Backend {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override {}
  double max(double value) override { return value; }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    return [=, this] {
      inputs.emplace_back(in, in + call.total);
      if (writes) std::copy_n(in, call.total, out);
    };
  }
  bool writes = true;
  std::vector<std::vector<float>> inputs;  ///< of each call
};

std::vector<float> room_for(const bench::Call& call) { return std::vector<float>(call.total); }

bench::Call reduction_on(int rank, std::size_t bytes) {
  return bench::call_of(bench::Operation::all_reduce, bytes, rank, 4);
}

TEST(Point, RewritingOfRanksThatShareACoreIsToldToAllAndTakenOff) {
  for (const std::size_t bytes : {std::size_t{256}, std::size_t{1} << 18U}) {
    const bench::Call call = reduction_on(1, bytes);
    auto in = room_for(call), out = room_for(call);
    OneOfFour backend(1, {0, 0, 0, 3600});  // an hour on rank 3, which shares its core, leaves nothing
    bench::Point point(backend, call, in.data(), out.data(), 2);
    EXPECT_LT(point.batch(1, bench::Inputs::rewritten), call_seconds);
    ASSERT_EQ(backend.asked.size(), 5U);  // of each rank, then the result
    EXPECT_GT(backend.asked[1], 0);
    backend.asked[1] = 0;
    backend.asked.pop_back();
    EXPECT_EQ(backend.asked, std::vector<double>(4, 0));
  }
}

TEST(Point, RewritingElsewhereIsNotTakenOff) {
  const bench::Call call = reduction_on(1, std::size_t{1} << 18U);
  auto in = room_for(call), out = room_for(call);
  OneOfFour backend(1, {3600, 0, 3600, 0});
  bench::Point point(backend, call, in.data(), out.data(), 2);
  EXPECT_GE(point.batch(1, bench::Inputs::rewritten), call_seconds / 2);
}

TEST(Point, RanksWithACoreEachAreNotAsked) {
  const bench::Call call = reduction_on(1, 256);
  auto in = room_for(call), out = room_for(call);
  OneOfFour backend(1, {});
  bench::Point point(backend, call, in.data(), out.data(), 4);
  (void)point.batch(1, bench::Inputs::rewritten);
  EXPECT_EQ(backend.asked.size(), 1U);
}

TEST(Point, ACallThatWritesNothingIsNoticedWhereInputsStayTheSame) {
  const bench::Call call = bench::call_of(bench::Operation::all_reduce, 64, 0, 1);
  auto in = room_for(call), out = room_for(call);
  Copying backend;
  bench::Point point(backend, call, in.data(), out.data(), 1);
  EXPECT_TRUE(point.check());
  (void)point.batch(2, bench::Inputs::unchanged);
  EXPECT_TRUE(point.still_right());
  backend.writes = false;
  (void)point.batch(2, bench::Inputs::unchanged);
  EXPECT_TRUE(point.last_was_right());  // what an earlier call wrote
  EXPECT_FALSE(point.still_right());
}

TEST(Point, RewrittenInputsAreStillThoseOfTheLastCall) {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 16U}) {
    const bench::Call call = bench::call_of(bench::Operation::all_reduce, bytes, 0, 1);
    auto in = room_for(call), out = room_for(call);
    Copying backend;
    bench::Point point(backend, call, in.data(), out.data(), 1);
    (void)point.batch(3, bench::Inputs::rewritten);
    EXPECT_TRUE(point.still_right()) << bytes;
    EXPECT_EQ(in, backend.inputs.at(2)) << bytes;
  }
}

TEST(Point, TheLastCheckIsOfInputsThatStayedTheSame) {
  const bench::Call call = bench::call_of(bench::Operation::all_reduce, 64, 0, 1);
  auto in = room_for(call), out = room_for(call);
  Copying backend;
  bench::Point point(backend, call, in.data(), out.data(), 1);
  (void)point.check();
  backend.inputs.clear();
  (void)point.batch(3, bench::Inputs::unchanged);
  EXPECT_TRUE(point.still_right());
  ASSERT_EQ(backend.inputs.size(), 4U);
  for (const auto& each : backend.inputs) EXPECT_EQ(each, backend.inputs.front());
}

}  // namespace
