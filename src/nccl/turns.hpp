/// \file
/// Jobs on one communicator take turns, in the order in which the program asked for them: so they do on its
/// other ranks.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <utility>

namespace tutti::nccl {

class Turn {
 public:
  explicit Turn(std::shared_future<void> before) : before_(std::move(before)) {}
  /// Returns when those before it have ended.
  void begin() const {
    if (before_.valid()) before_.wait();
  }
  /// The next one may begin. So it may when this one goes, whether it was used or not.
  void end() {
    if (!std::exchange(ended_, true)) end_.set_value();
  }

 private:
  friend class Turns;
  const std::shared_future<void> before_;
  std::promise<void> end_;
  bool ended_ = false;
};

class Turns {
 public:
  std::shared_ptr<Turn> next() {
    const std::scoped_lock lock(mutex_);
    auto turn = std::make_shared<Turn>(last_);
    last_ = turn->end_.get_future().share();
    return turn;
  }

 private:
  std::mutex mutex_;
  std::shared_future<void> last_;
};

}  // namespace tutti::nccl
