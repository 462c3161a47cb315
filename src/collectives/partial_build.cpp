#include "collectives/partial_build.hpp"

#include <cassert>

namespace tutti {

namespace {
thread_local PartialBuild* current_build = nullptr;
}

PartialBuild::PartialBuild(Keeps keeps, Sees sees) : keeps_(std::move(keeps)), sees_(std::move(sees)) {
  assert(current_build == nullptr);
  current_build = this;
}

PartialBuild::~PartialBuild() { current_build = nullptr; }

PartialBuild* PartialBuild::current() noexcept { return current_build; }

Step* PartialBuild::begin(Rank rank, int lane) {
  finish();
  if (keeps_(rank)) return nullptr;
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
