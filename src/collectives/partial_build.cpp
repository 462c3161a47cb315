#include "collectives/partial_build.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

namespace tutti {

namespace {
thread_local PartialBuild* current_build = nullptr;
}

PartialBuild::PartialBuild(std::vector<Rank> keeps) : keeps_(std::move(keeps)) {
  assert(current_build == nullptr);
  current_build = this;
}

PartialBuild::PartialBuild(Sees sees) : sees_(std::move(sees)) {
  assert(current_build == nullptr);
  current_build = this;
}

PartialBuild::~PartialBuild() { current_build = nullptr; }

PartialBuild* PartialBuild::current() noexcept { return current_build; }

std::vector<Rank> PartialBuild::wanted(int ranks, int period) {
  if (!sees_) return keeps_;
  period_ = period;
  std::vector<Rank> all(static_cast<std::size_t>(period > 0 ? period : ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Step* PartialBuild::begin(Rank rank, int lane) {
  finish();
  if (std::binary_search(keeps_.begin(), keeps_.end(), rank)) return nullptr;
  rank_ = rank;
  lane_ = lane;
  return &step_;
}

void PartialBuild::finish() {
  if (rank_ >= 0 && sees_) sees_(rank_, lane_, step_);
  step_.sources.clear();
  step_.sinks.clear();
  step_.complete = false;
  rank_ = -1;
}

}  // namespace tutti
