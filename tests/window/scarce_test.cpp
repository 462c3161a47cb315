// Ranks that run out of memory amid transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/ranks.hpp"
#include "transport/tcp_ranks.hpp"
#include "window/exposing.hpp"
#include "window/state.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// What a way to a target was asked.
struct Asked {
  int puts = 0;
  bool without_memory = false;  ///< from now on
};

/// It queues what it is given, and nothing is ever done.
class Queueing final : public transport::RemoteMemory {
 public:
  explicit Queueing(Asked& asked) : asked_(asked) {}
  [[nodiscard]] std::string explain() const override { return "it queues"; }
  void put(std::span<const Block>) override {
    ++asked_.puts;
    require_memory();
  }
  void get(std::span<const Block>) override {}
  void notify(std::uint32_t) override {}
  [[nodiscard]] std::uint64_t started() const override { return static_cast<std::uint64_t>(asked_.puts); }
  std::uint64_t done() override {
    require_memory();
    return 0;
  }
  [[nodiscard]] std::uint64_t known_done() const override { return 0; }
  void wait(std::chrono::microseconds) override {}

 private:
  void require_memory() const {
    if (asked_.without_memory) throw std::bad_alloc();
  }
  Asked& asked_;
};

// What a put has left in a queue would go with the next one, and so would not be what was meant.
TEST(WindowOutOfMemory, GivesUpTheTargetOfATransfer) {
  constexpr int ranks = 3;
  const auto groups = transport::testing::local_groups(ranks);
  const auto listeners = transport::testing::listeners_at("127.0.0.1", ranks);
  bootstrap::test::on_threads(ranks, [&](Rank rank) {
    std::map<Rank, Asked> asked;
    Exposing network;
    network.reach = [&asked](Rank target) { return std::make_unique<Queueing>(asked[target]); };
    std::vector<std::byte> counters(detail::Counters::bytes_for(64, ranks)), memory(64);
    detail::WindowSetting setting;
    setting.group = groups[static_cast<std::size_t>(rank)];
    setting.number = 7;
    setting.memory = memory;
    setting.counters = {counters.data(), [](std::byte*) {}};
    setting.listener = [&] { return listeners[static_cast<std::size_t>(rank)]; };
    setting.network = &network;
    Window window = detail::WindowState::make_window(std::move(setting));
    if (rank != 0) return;
    asked[1].without_memory = true;
    for (int time = 0; time < 2; ++time) {
      const auto thrown = thrown_by([&] { window.put(1, {.bytes = 8}); });
      EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
      EXPECT_THAT(thrown.text, HasSubstr("rank 0 is out of memory"));
    }
    EXPECT_EQ(asked[1].puts, 1);
    window.put(2, {.bytes = 8});
    asked[2].without_memory = true;  // until the window is gone
    EXPECT_EQ(asked[2].puts, 1);
  });
}

}  // namespace
}  // namespace tutti::test
