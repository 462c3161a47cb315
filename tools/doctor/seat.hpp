/// \file
/// Where a rank sits while its pair is measured: two ranks on one processor would measure the scheduler.
#pragma once

#include <vector>

namespace tutti::doctor {

/// Binds this thread while it lives, then gives it all its processors back.
class Seat {
 public:
  /// The `rank`-th of the processors that this thread may use, round-robin; for the second of two ranks
  /// another one than the first's, `other`. A refusal of the system is ignored.
  Seat(int rank, int other, bool first);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

 private:
  std::vector<int> allowed_;
};

}  // namespace tutti::doctor
