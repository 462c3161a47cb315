/// \file
/// Calls that know no deadline, for callers that have one.
#pragma once

#include <exception>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/deadline.hpp"
#include "base/quiet_thread.hpp"

namespace tutti {

/// What `work` returns, in a thread of its own; nothing when it has not by the deadline. It goes on then, for
/// as long as it takes: it must own all that it uses. Throws what `work` does by the deadline, and
/// Error(system) where no thread can be had.
template <class Work>
std::optional<std::invoke_result_t<Work&>> result_by(const Deadline& deadline, Work work) {
  std::promise<std::invoke_result_t<Work&>> promise;
  auto result = promise.get_future();
  const auto thread = quiet_thread([promise = std::move(promise), work = std::move(work)]() mutable {
    try {
      promise.set_value(work());
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  });
  if (result.wait_until(deadline.end()) != std::future_status::ready) {
    thread->detach();
    return std::nullopt;
  }
  thread->join();
  return result.get();
}

}  // namespace tutti
