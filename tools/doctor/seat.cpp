#include "doctor/seat.hpp"

#include <vector>

namespace tutti::doctor {

Seat::Seat(int rank, int other, bool first) {
  if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
  std::vector<std::size_t> processors;
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed_)) processors.push_back(i);
  const auto count = processors.size();
  auto at = static_cast<std::size_t>(rank) % count;
  if (!first && at == static_cast<std::size_t>(other) % count) at = (at + 1) % count;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors[at], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

Seat::~Seat() { ::sched_setaffinity(0, sizeof allowed_, &allowed_); }

}  // namespace tutti::doctor
