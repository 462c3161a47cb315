#include "communicator/waiting.hpp"

namespace tutti::detail {

Task& Pending::add() {
  if (kept.size() == used) kept.push_back(std::make_unique<Task>());
  return *kept[used++];
}

void Pending::reuse(Impl* by) {
  owner = by;
  used = unfinished = 0;
  failure = nullptr;
  moved();
}

void Pending::moved() {
  others_moved();
  stuck = {};
  known = looked = {};
}
void Pending::others_moved() {
  idle = {};
  reported = false;
}

void Pending::still(Clock::time_point now, const Movements& until_now) {
  const auto passed = known == Clock::time_point{}
                          ? Clock::duration{}
                          : std::clamp(now - known, Clock::duration{}, longest_unseen);
  idle += passed;
  stuck += passed;
  const Movements before = std::exchange(movements, until_now);
  const bool of_communicator = before.of_communicator != until_now.of_communicator;
  if (of_communicator || before.of_thread != until_now.of_thread) others_moved();
  if (of_communicator) stuck = {};
  known = now;
}

}  // namespace tutti::detail
