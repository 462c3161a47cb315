/// \file
/// Calls that know no deadline, for callers that have one.
#pragma once

#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "base/quiet_thread.hpp"

namespace tutti {

/// One at a time, each in a thread of its own. One that was not awaited to its end goes on for as long as it
/// takes, also when this object has gone: it must own all that it uses.
template <class Result>
class LongCall {
 public:
  LongCall() = default;
  LongCall(const LongCall&) = delete;
  LongCall& operator=(const LongCall&) = delete;
  ~LongCall() {
    if (fork_generation() != generation_)
      static_cast<void>(thread_.release());  // neither to be joined nor detached here
    else if (thread_)
      thread_->detach();
  }

  [[nodiscard]] bool under_way() const { return thread_ != nullptr; }
  /// While none is under way. Throws Error(system) where no thread can be had.
  template <class Work>
  void begin(Work work) {
    generation_ = fork_generation();
    std::promise<Result> promise;
    result_ = promise.get_future();
    thread_ = quiet_thread([promise = std::move(promise), work = std::move(work)]() mutable {
      try {
        promise.set_value(work());
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    });
  }
  /// What the one under way returns, or throws; nothing when it has not by the deadline: then it goes on, and
  /// may be waited for again.
  std::optional<Result> result_by(const Deadline& deadline) {
    if (result_.wait_until(deadline.end()) != std::future_status::ready) return std::nullopt;
    thread_->join();
    thread_.reset();
    return result_.get();
  }

 private:
  std::future<Result> result_;
  std::unique_ptr<std::thread> thread_;
  std::uint64_t generation_ = fork_generation();
};

/// What `work` returns, or throws; nothing when it has not by the deadline. It goes on then, for as long as
/// it takes. Throws Error(system) where no thread can be had.
template <class Work>
std::optional<std::invoke_result_t<Work&>> result_by(const Deadline& deadline, Work work) {
  LongCall<std::invoke_result_t<Work&>> call;
  call.begin(std::move(work));
  return call.result_by(deadline);
}

}  // namespace tutti
