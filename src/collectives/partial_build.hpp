/// \file
/// Schedules of so many ranks that they fit no memory: their builders run as ever, but hand over every step
/// once instead of keeping it, or keep the steps of a few ranks.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti {

/// While it lives, the schedules that this thread's Builders build hold the steps of some ranks only, and no
/// lane is dropped. Does not nest.
class PartialBuild {
 public:
  using Sees = std::function<void(Rank, int lane, const Step&)>;
  /// Holds the steps of `keeps`, ascending.
  explicit PartialBuild(std::vector<Rank> keeps);
  /// Holds none; `sees` is told every step once, in the order of its lane. Where the builder names a period,
  /// it is told those of the first ranks only.
  explicit PartialBuild(Sees sees);
  ~PartialBuild();
  PartialBuild(const PartialBuild&) = delete;
  PartialBuild& operator=(const PartialBuild&) = delete;

  /// The one of this thread, or nullptr.
  static PartialBuild* current() noexcept;
  /// The ranks whose steps are wanted; see Builder::ranks.
  std::vector<Rank> wanted(int ranks, int period);
  /// What the builder named; 0: nothing.
  [[nodiscard]] int period() const { return period_; }
  /// A step to be written and forgotten, or nullptr when it is to be kept.
  Step* begin(Rank rank, int lane);
  void finish();

 private:
  std::vector<Rank> keeps_;
  Sees sees_;
  int period_ = 0;
  Step step_;
  Rank rank_ = -1;  ///< of `step_`; -1: there is none
  int lane_ = 0;
};

}  // namespace tutti
