// What the typed forms of operations take.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

static_assert(Elements<const std::vector<float>&> && !WritableElements<const std::vector<float>&>);
static_assert(WritableElements<std::vector<float>&> && WritableElements<std::span<float, 3>>);
static_assert(WritableElements<float (&)[3]> && WritableElements<Buffer<float>&>);
static_assert(!Elements<std::vector<float>>, "its memory would be gone while an asynchronous call runs");
static_assert(!Elements<std::vector<bool>&> && !Elements<std::vector<short>&>);
static_assert(ElementsLike<std::span<const int>, std::vector<int>&>);
static_assert(!ElementsLike<std::vector<int>&, std::vector<float>&>);
static_assert(std::convertible_to<std::vector<std::size_t>, PerRank>);
static_assert(std::convertible_to<const std::array<std::size_t, 2>&, PerRank>);
static_assert(std::convertible_to<std::size_t (&)[2], PerRank>);
static_assert(std::convertible_to<std::span<std::size_t>, PerRank>);
static_assert(std::convertible_to<std::span<const std::size_t>, PerRank>);
static_assert(std::convertible_to<std::span<const std::size_t, 2>, PerRank>);
static_assert(!std::convertible_to<const std::vector<float>&, PerRank>);
static_assert(detail::OtherIntegers<const std::vector<int>&>, "refused with a message");
static_assert(!detail::OtherIntegers<const std::vector<std::size_t>&> && !detail::OtherIntegers<PerRank>);

TEST(Ranges, OfEveryKind) {
  run_local(
      2,
      [](Communicator& comm) {
        const Rank me = comm.rank();
        const std::vector<int> vector{me, me + 1};
        std::array<int, 2> array{};
        comm.all_reduce(vector, array);
        EXPECT_EQ(array, (std::array{1, 3}));

        int plain[4] = {};
        comm.all_gather(std::span<const int, 2>(vector), plain);
        EXPECT_EQ(std::vector(plain, plain + 4), (std::vector{0, 1, 1, 2}));

        Buffer<int> buffer;
        EXPECT_EQ(buffer.begin(), buffer.end());
        comm.all_reduce(buffer);
        buffer = comm.allocate<int>(2);
        comm.broadcast(me == 1 ? std::span<const int>(vector) : std::span<const int>(), buffer, 1);
        EXPECT_EQ(buffer[1], 2);

        std::vector<std::byte> bytes(3, std::byte(me + 7));
        comm.broadcast(bytes, 1);
        EXPECT_EQ(bytes, std::vector<std::byte>(3, std::byte(8)));
      },
      over("shm"));
}

TEST(Ranges, BuffersThatWereMovedFromAreEmpty) {
  run_local(
      2,
      [](Communicator& comm) {
        auto made = comm.allocate<int>(2);
        int* const data = made.data();
        auto moved = std::move(made);
        EXPECT_EQ(made.data(), nullptr);
        EXPECT_EQ(made.size(), 0U);
        EXPECT_EQ(made.begin(), made.end());
        EXPECT_EQ(moved.data(), data);
        made = std::move(moved);
        EXPECT_EQ(moved.data(), nullptr);
        EXPECT_TRUE(moved.span().empty());
        moved = made;
        EXPECT_EQ(made.data(), data) << "that was a copy";
        EXPECT_EQ(moved.data(), data);
        EXPECT_EQ(moved.size(), 2U);
      },
      over("shm"));
}

TEST(Ranges, InPlaceAreGivenOnce) {
  run_local(
      2,
      [](Communicator& comm) {
        const Rank me = comm.rank();
        std::vector<int> data{me, me + 1};
        comm.reduce(data, 1);
        EXPECT_EQ(data, (me == 1 ? std::vector{1, 3} : std::vector{0, 1}));
        comm.reduce(std::span(data), 0, ReduceOp::max);
        EXPECT_EQ(data, (std::vector{1, 3}));
        data[0] = 10 * me;
        comm.all_to_all(data);
        EXPECT_EQ(data, (me == 0 ? std::vector{0, 10} : std::vector{3, 3}));

        constexpr auto type = DataType::int32;
        comm.all_to_all(data.data(), 1, type);
        EXPECT_EQ(data, (std::vector{10 * me, 3}));
        comm.reduce(data.data(), 2, type, 1);
        EXPECT_EQ(data, (me == 1 ? std::vector{10, 6} : std::vector{0, 3}));
        comm.reduce(data.data(), 2, type, 0, ReduceOp::max);
        EXPECT_EQ(data, (std::vector{10, 6}));
        comm.all_reduce(data.data(), 2, type);
        comm.all_reduce(data.data(), 1, type, ReduceOp::product);
        EXPECT_EQ(data, (std::vector{400, 12}));
        data[0] += me;
        comm.broadcast(data.data(), 2, type, 1);
        EXPECT_EQ(data, (std::vector{401, 12}));
      },
      over("shm"));
}

TEST(Ranges, MayBeNothingWhereNothingIsRead) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<int> mine{comm.rank() + 5};
        std::vector<int> all(2), one(1);
        if (comm.rank() == 0) {
          comm.gather(mine, all, 0);
          comm.scatter(all, one, 0);
          comm.reduce(mine, one, 0);
          EXPECT_EQ(one[0], 11);
        } else {
          comm.gather(mine, {}, 0);
          comm.scatter({}, one, 0);
          EXPECT_EQ(one[0], 6);
          comm.reduce(mine, {}, 0);
        }
        comm.broadcast(mine, one, 0);
        EXPECT_EQ(one[0], 5);
        const std::vector<std::size_t> first{1, 0}, none{0, 0};
        if (comm.rank() == 0) {
          comm.all_gather_v(mine, one, first);
          comm.reduce_scatter_v(mine, one, first);
          EXPECT_EQ(one[0], 5 + 6);
          comm.all_to_all_v(mine, std::vector<std::size_t>{0, 1}, {}, {}, none, {});
        } else {
          comm.all_gather_v({}, one, first);
          EXPECT_EQ(one[0], 5);
          comm.reduce_scatter_v(mine, {}, first);
          comm.all_to_all_v({}, none, {}, one, first, {});
          EXPECT_EQ(one[0], 5);
        }
      },
      over("shm"));
}

}  // namespace
}  // namespace tutti::test
