// What is remembered of what was heard.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "communicator/watch.hpp"

namespace tutti::test {
namespace {

using bootstrap::Notice;

/// In which a test says what others have announced.
class ToldSession final : public bootstrap::Session {
 public:
  void tell(Notice::Kind kind, std::uint64_t communicator) {
    notices_.push_back(
        {.kind = kind, .rank = 1, .communicator = communicator, .ranks = {1}, .text = "enough of it"});
  }
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  [[nodiscard]] const bootstrap::Secret& secret() const override { return secret_; }
  [[nodiscard]] std::string address() const override { return {}; }
  std::vector<bootstrap::Bytes> all_gather(std::span<const std::byte> /*mine*/,
                                           std::chrono::milliseconds /*timeout*/) override {
    return {};
  }
  std::optional<Notice> poll() override {
    if (notices_.empty()) return std::nullopt;
    Notice next = std::move(notices_.front());
    notices_.pop_front();
    return next;
  }
  bool hub_has_ended() override { return false; }
  void announce_failure(std::uint64_t /*communicator*/, const Error& /*why*/) noexcept override {}
  void announce_abort(std::uint64_t /*communicator*/, const Error& /*why*/) noexcept override {}
  void announce_closed(std::uint64_t /*communicator*/, std::span<const Rank> /*members*/) noexcept override {}
  void report_stuck(std::uint64_t /*communicator*/, Rank /*me*/,
                    std::span<const bootstrap::CallRecord> /*calls*/) noexcept override {}
  void leave(std::chrono::milliseconds /*linger*/) noexcept override {}

 private:
  bootstrap::Secret secret_{};
  std::deque<Notice> notices_;
};

// A program that makes communicators, and gives them up, for days.
TEST(Watching, KeepsTheLatestFailuresAndThoseOfOpenCommunicators) {
  const auto session = std::make_shared<ToldSession>();
  Watch watch(session);
  constexpr std::uint64_t open = 1, last = 2 * Watch::most_heard;
  const auto knows = [&](std::uint64_t communicator) {
    EXPECT_EQ(watch.failure(communicator).has_value(), watch.abort(communicator).has_value());
    return watch.failure(communicator).has_value();
  };
  watch.open(open);
  for (std::uint64_t one = open; one <= last; ++one) session->tell(Notice::Kind::aborted, one);
  watch.poll();
  EXPECT_TRUE(knows(open));
  EXPECT_FALSE(knows(open + 1));
  EXPECT_TRUE(knows(last));

  watch.close(open);
  session->tell(Notice::Kind::aborted, last + 1);
  watch.poll();
  EXPECT_FALSE(knows(open));
  EXPECT_TRUE(knows(last + 1));
}

}  // namespace
}  // namespace tutti::test
