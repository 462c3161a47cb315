// What a rank has called, as others read it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include <tutti/unique_id.hpp>

#include "bootstrap/session.hpp"
#include "communicator/impl.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// A communicator of one rank, from the inside.
std::unique_ptr<detail::Impl> made_for_one() {
  const auto watch = std::make_shared<Watch>(bootstrap::Session::join(UniqueId::create(), 0, 1, 10s));
  transport::Group group;
  group.communicator = 1;
  group.world = {0};
  group.all_gather = [watch](std::span<const std::byte> mine) {
    return watch->session().all_gather(mine, 10s);
  };
  return std::make_unique<detail::Impl>(watch, nullptr, std::move(group), Options{},
                                        tuning::Tuning::defaults());
}

// Who looks for a call that differs goes through the logs of two ranks side by side, and one may be going on.
TEST(CallLog, IsReadInOrderWhileItsRankGoesOn) {
  const auto impl = made_for_one();
  const std::jthread rank([&impl](const std::stop_token& over) {
    for (Task task; !over.stop_requested();) {
      ++task.sequence;
      impl->log_call(task);
    }
  });
  while (impl->logged_calls(0).empty()) std::this_thread::yield();
  for (int i = 0; i < 2'000; ++i) {
    const auto calls = impl->logged_calls(0);
    ASSERT_TRUE(std::ranges::is_sorted(calls, {}, &detail::Impl::LoggedCall::order));
  }
}

}  // namespace
}  // namespace tutti::test
