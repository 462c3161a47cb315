// What windows take, up to their limits, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/ranks.hpp"
#include "window/seats.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

class WindowArguments : public OverWays {};
INSTANTIATE_TEST_SUITE_P(Ways, WindowArguments, every_way(),
                         [](const auto& way) { return name_of(way.param); });

TEST_P(WindowArguments, OfSizesThatDifferAreRefusedBeyondThem) {
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(seat.rank == 0 ? 4096 : 64, {.name = "kv"});
    Window& window = place.window;
    EXPECT_EQ(window.bytes(0), 4096U);
    EXPECT_EQ(window.bytes(1), 64U);
    const auto refused = [&](const std::function<void()>& call, const std::string& part) {
      const auto thrown = thrown_by(call);
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("window \"kv\" on rank"));
      EXPECT_THAT(thrown.text, HasSubstr(part));
    };
    if (seat.rank == 0) {
      constexpr auto huge = static_cast<std::size_t>(-1);
      refused([&] { window.put(1, {.local = 0, .remote = 60, .bytes = 8}); },
              "put of 8 bytes, rank 1 at offset 60");
      refused([&] { window.put(1, {.local = 0, .remote = 0, .bytes = 65}); }, "the 64 bytes of rank 1");
      refused([&] { window.get(1, {.local = 4090, .remote = 0, .bytes = 8}); }, "the 4096 bytes of rank 0");
      refused([&] { window.get(1, {.local = 0, .remote = huge, .bytes = 2}); }, "beyond");
      refused([&] { window.get(1, {.local = 0, .remote = 2, .bytes = huge}); }, "beyond");
      for (const Rank none : {2, -2}) {
        const std::string text = "there is no rank " + std::to_string(none) + "; its ranks are 0 to 1";
        refused([&] { window.put(none, {.bytes = 1}); }, text);
        refused([&] { window.get(none, {.bytes = 1}); }, text);
        refused([&] { window.notify(none, 0); }, text);
        refused([&] { static_cast<void>(window.prepare_put(none, {})); }, text);
        refused([&] { window.fetch_add(none, 0, 1); }, text);
        refused([&] { static_cast<void>(window.compare_swap(none, 0, 0, 1)); }, text);
        refused([&] { window.flush(none); }, text);
        refused([&] { static_cast<void>(window.path(none)); }, text);
        refused([&] { static_cast<void>(window.bytes(none)); }, text);
        refused([&] { window.wait_notification(0, 1, none); }, text);
        refused([&] { static_cast<void>(window.test_notification(0, 1, none)); }, text);
      }
      refused([&] { window.put(1, {.bytes = 1}, {.notify = 64}); }, "there is no notification 64");
      refused([&] { window.wait_notification(64); }, "there is no notification 64");
      refused([&] { static_cast<void>(window.test_notification(64)); }, "there is no notification 64");
      refused([&] { window.fetch_add(1, 4, 1); }, "not a multiple of 8");
      refused([&] { window.fetch_add(1, 64, 1); }, "has 64 bytes");
      const std::vector<Block> blocks{{.bytes = 8}, {.remote = 64, .bytes = 1}};
      refused([&] { static_cast<void>(window.prepare_put(1, blocks)); }, "offset 64");
      refused([&] { window.post(Batch()); }, "another window");
    }
    seat.barrier();
    for (const auto byte : place.as<std::uint8_t>()) ASSERT_EQ(byte, 0);
  });
}

TEST_P(WindowArguments, SomeRanksMayHaveNoMemory) {
  run(GetParam(), 3, [](Seat& seat) {
    const auto memory = seat.allocate(64);
    const bool has_some = seat.rank != 1;
    Window window = seat.window(has_some ? std::span(memory.get(), 64) : std::span<std::byte>(), {});
    EXPECT_EQ(window.bytes(0), 64U);
    EXPECT_EQ(window.bytes(1), 0U);
    if (seat.rank == 0) {
      EXPECT_EQ(thrown_by([&] { window.put(1, {.bytes = 1}); }).code, ErrorCode::invalid_argument);
      *memory = std::byte{7};
      window.put(2, {.bytes = 8}, {.notify = 1});
      window.put(1, {}, {.notify = 1});
      window.wait_notification(1, 1, 1);
    } else {
      window.wait_notification(1, 1, 0);
      if (has_some) {
        EXPECT_EQ(*memory, std::byte{7});
      } else {
        EXPECT_EQ(thrown_by([&] { window.get(0, {.bytes = 1}); }).code, ErrorCode::invalid_argument);
        window.notify(0, 1);
        EXPECT_EQ(window.fetch_add(2, 8, 1), 0U);
      }
    }
    window.flush();
    seat.barrier();
  });
}

TEST_P(WindowArguments, WhatARankMovesInItsOwnMemoryDoesNotOverlap) {
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(64, {.name = "kv"});
    for (std::size_t i = 0; i < 64; ++i) place.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    Window& window = place.window;
    const Rank self = seat.rank;
    const auto refused = [&](const std::function<void()>& call) {
      const auto thrown = thrown_by(call);
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("overlap"));
    };
    refused([&] { window.put(self, {.local = 0, .remote = 7, .bytes = 8}); });
    refused([&] { window.get(self, {.local = 7, .remote = 0, .bytes = 8}); });
    const std::vector<Block> chain{{.local = 0, .remote = 8, .bytes = 8},
                                   {.local = 8, .remote = 16, .bytes = 8}};
    refused([&] { static_cast<void>(window.prepare_put(self, chain)); });
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(place.as<std::uint8_t>()[i], i);
    window.put(self, {.local = 8, .remote = 8, .bytes = 8}).wait();
    window.put(self, {.local = 0, .remote = 8, .bytes = 8}).wait();
    EXPECT_EQ(place.as<std::uint8_t>()[15], 7);
    seat.barrier();
    if (self == 0) window.put(1, {.local = 0, .remote = 7, .bytes = 8}).wait();
    seat.barrier();
    if (self == 1) {
      EXPECT_EQ(place.as<std::uint8_t>()[14], 7);
    }
  });
}

// Words are aligned by their addresses, not by their offsets.
TEST_P(WindowArguments, AtomicsAreOfAlignedWordsOfMemoryThatIsNot) {
  run(GetParam(), 2, [](Seat& seat) {
    constexpr std::size_t off = 4;
    const auto memory = seat.allocate(64);
    Window window = seat.window({memory.get() + off, 64 - off}, {});
    const Rank peer = 1 - seat.rank;
    for (const Rank target : {seat.rank, peer})
      for (const std::size_t offset : {std::size_t{0}, std::size_t{8}}) {
        const auto thrown = thrown_by([&] { window.fetch_add(target, offset, 1); });
        EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
        EXPECT_THAT(thrown.text, HasSubstr("not a multiple of 8 (that rank's memory does not begin at one)"));
        EXPECT_EQ(thrown_by([&] { static_cast<void>(window.compare_swap(target, offset, 0, 1)); }).code,
                  ErrorCode::invalid_argument);
      }
    seat.barrier();
    EXPECT_EQ(window.fetch_add(peer, 8 - off, 7), 0U);
    EXPECT_EQ(window.compare_swap(peer, 16 - off, 0, 9), 0U);
    seat.barrier();
    EXPECT_EQ(window.fetch_add(seat.rank, 8 - off, 0), 7U);
    EXPECT_EQ(window.compare_swap(seat.rank, 16 - off, 9, 0), 9U);
    seat.barrier();
  });
}

TEST_P(WindowArguments, TheLastOfTheMostNotificationsArrives) {
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(64, {.notifications = max_notifications});
    const Rank peer = 1 - seat.rank;
    place.window.notify(peer, max_notifications - 1);
    place.window.wait_notification(max_notifications - 1, 1, peer);
    for (const std::uint32_t other : {0U, max_notifications - 2})
      EXPECT_FALSE(place.window.test_notification(other));
    place.window.flush();
    seat.barrier();
  });
}

TEST(WindowLimits, OfNotificationsAreNamed) {
  run(Way::threads, 2, [](Seat& seat) {
    for (const std::uint32_t wanted : {0U, max_notifications + 1}) {
      const auto thrown = thrown_by([&] { const auto place = seat.place(64, {.notifications = wanted}); });
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
      EXPECT_THAT(thrown.text, HasSubstr("WindowOptions::notifications is " + std::to_string(wanted) +
                                         "; it must be 1 to " + std::to_string(max_notifications)));
    }
    seat.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
