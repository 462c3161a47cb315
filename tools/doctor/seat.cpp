#include "doctor/seat.hpp"

#include <cstddef>

#include "base/processors.hpp"

namespace tutti::doctor {

Seat::Seat(int rank, int other, bool first) : allowed_(allowed_processors()) {
  const auto count = allowed_.size();
  if (count == 0) return;
  auto at = static_cast<std::size_t>(rank) % count;
  if (!first && at == static_cast<std::size_t>(other) % count) at = (at + 1) % count;
  run_on({allowed_[at]});
}

Seat::~Seat() {
  if (!allowed_.empty()) run_on(allowed_);
}

}  // namespace tutti::doctor
