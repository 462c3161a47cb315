/// \file
/// Schedules of so many ranks that they fit no memory: their builders run as ever, but hand over every step
/// once instead of keeping it, or keep the steps of a few ranks.
#pragma once

#include <functional>
#include <utility>

#include <tutti/schedule.hpp>

namespace tutti {

/// While it lives, the schedules that this thread's Builders build hold only the steps of ranks that `keeps`
/// names, and no lane is dropped; `sees` is told all other steps, each once, in the order of its lane. Does
/// not nest.
class PartialBuild {
 public:
  using Keeps = std::function<bool(Rank)>;
  using Sees = std::function<void(Rank, int lane, const Step&)>;
  explicit PartialBuild(Keeps keeps, Sees sees = nullptr);
  ~PartialBuild();
  PartialBuild(const PartialBuild&) = delete;
  PartialBuild& operator=(const PartialBuild&) = delete;

  /// The one of this thread, or nullptr.
  static PartialBuild* current() noexcept;
  /// A step to be written and forgotten, or nullptr when it is to be kept.
  Step* begin(Rank rank, int lane);
  void finish();

 private:
  Keeps keeps_;
  Sees sees_;
  Step step_;
  Rank rank_ = -1;  ///< of `step_`; -1: there is none
  int lane_ = 0;
};

}  // namespace tutti
