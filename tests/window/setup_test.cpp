// Windows while they are made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/mappings.hpp"
#include "bootstrap/ranks.hpp"
#include "sanitized.hpp"
#include "transport/fail_together.hpp"
#include "transport/tcp_ranks.hpp"
#include "window/exposing.hpp"
#include "window/seats.hpp"
#include "window/state.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// So many more addresses for this process, and no more.
void limit_addresses(std::size_t bytes, rlimit usual) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  usual.rlim_cur = pages * page_bytes() + bytes;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
}

// Others would put into memory that is none any more, and wait for what does not come.
TEST(WindowSetup, WhoCannotMapAPeerHasNoneAndAllHearOfIt) {
  if (sanitized) GTEST_SKIP() << "sanitizers need address space themselves";
  run(Way::mapped, 2, [](Seat& seat) {
    constexpr std::size_t counters = std::size_t{2} * max_notifications * sizeof(std::uint64_t);
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &usual), 0);
    // For its own ones, and as many words that say what it has taken of them.
    if (seat.rank == 1) limit_addresses(2 * counters + counters / 2, usual);
    const auto thrown =
        thrown_by([&] { const auto place = seat.place(64, {.notifications = max_notifications}); });
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, HasSubstr("cannot map"));
    seat.barrier();
  });
}

class WindowOptionsOfOneRank : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Threads, WindowOptionsOfOneRank, testing::Values(Way::threads, Way::tcp_threads),
                         [](const auto& way) { return name_of(way.param); });

TEST_P(WindowOptionsOfOneRank, AreRefusedOnAll) {
  run(GetParam(), 3, [](Seat& seat) {
    const auto thrown =
        thrown_by([&] { const auto place = seat.place(64, {.notifications = seat.rank == 1 ? 0U : 8U}); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, HasSubstr("rank 1: WindowOptions::notifications is 0"));
    const auto memory = seat.allocate(64);
    const auto of_null = thrown_by([&] { seat.window({seat.rank == 1 ? nullptr : memory.get(), 64}, {}); });
    EXPECT_EQ(of_null.code, ErrorCode::invalid_argument) << of_null.text;
    EXPECT_EQ(of_null.ranks, std::vector<Rank>{1});
    EXPECT_THAT(of_null.text, HasSubstr("rank 1: the memory given to a window is null"));
    // The communicator is as it was.
    auto place = seat.place(64);
    place.window.notify((seat.rank + 1) % 3, 1);
    place.window.wait_notification(1);
    seat.barrier();
  });
}

TEST(WindowMemory, IsOfWhateverOperationsTake) {
  Communicator alone = Communicator(UniqueId{}, 0, 1);
  std::vector<float> vector(4);
  std::vector<std::byte> bytes(16);
  std::array<std::int32_t, 4> array{};
  double numbers[2] = {};
  const auto buffer = alone.allocate<std::uint8_t>(16);
  EXPECT_EQ(Window(alone, vector).bytes(0), 16U);
  EXPECT_EQ(Window(alone, bytes, {.name = "bytes"}).bytes(0), 16U);
  EXPECT_EQ(Window(alone, array).bytes(0), 16U);
  EXPECT_EQ(Window(alone, numbers).bytes(0), 16U);
  EXPECT_EQ(Window(alone, buffer).bytes(0), 16U);
  EXPECT_EQ(Window(alone, std::span<float, 4>(vector)).bytes(0), 16U);
  EXPECT_EQ(Window(alone, {}).bytes(0), 0U);
  static_assert(!std::is_constructible_v<Window, Communicator&, std::vector<float>>, "it would be gone");
  static_assert(!std::is_constructible_v<Window, Communicator&, const std::vector<float>&>);
}

TEST(WindowWithoutAListener, IsRefusedOnAllRanks) {
  const auto groups = transport::testing::local_groups(2);
  const auto listeners = transport::testing::listeners_at("127.0.0.1", 2);
  bootstrap::test::on_threads(2, [&](Rank rank) {
    std::vector<std::byte> counters(detail::Counters::bytes_for(64, 2));
    detail::WindowSetting setting;
    setting.group = groups[static_cast<std::size_t>(rank)];
    setting.number = 7;
    setting.counters = {counters.data(), [](std::byte*) {}};
    setting.listener = [&]() -> std::shared_ptr<transport::tcp::TcpListener> {
      if (rank == 1) throw Error(ErrorCode::system, "too many open files");
      return listeners[0];
    };
    const auto thrown = thrown_by([&] { detail::WindowState::make_window(std::move(setting)); });
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, HasSubstr("rank 1: too many open files"));
  });
}

// The server's thread, which is not there, may have been in the middle of it.
TEST(WindowAccess, StaysAsItIsInAChildOfFork) {
  install_fork_guard();
  Exposing network;
  std::vector<std::uint64_t> counters(64);
  detail::WindowSetting setting;
  setting.group = transport::testing::local_groups(1)[0];
  setting.counters = {reinterpret_cast<std::byte*>(counters.data()), [](std::byte*) {}};
  setting.network = &network;
  std::optional<Window> window(detail::WindowState::make_window(std::move(setting)));
  bootstrap::test::Child child([&] {
    window.reset();
    return network.gone;
  });
  EXPECT_EQ(child.wait(), 0);
  window.reset();
  EXPECT_EQ(network.gone, 1);
}

TEST(WindowOutOfMemory, IsRefusedOnAllRanks) {
  const auto groups = transport::testing::local_groups(2);
  bootstrap::test::on_threads(2, [&](Rank rank) {
    const auto thrown = thrown_by([&] {
      transport::do_together(groups[static_cast<std::size_t>(rank)], [rank] {
        if (rank == 1) throw std::bad_alloc();
      });
    });
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, HasSubstr("rank 1: "));
    EXPECT_THAT(thrown.text, HasSubstr(std::bad_alloc().what()));
  });
}

}  // namespace
}  // namespace tutti::test
