/// \file
/// What is waited for, and since when nothing has moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/task.hpp"
#include "transport/sleep.hpp"

namespace tutti::detail {

struct Impl;

/// How often something queued has moved, and parts of messages, which may take long: bytes that sockets have
/// taken or given, and what others have copied of messages that they find in this rank's memory. Of a thread
/// those of the other communicators that have something queued, too, and what any rank of this host has moved
/// in calls on buffers of others.
struct Movements {
  std::uint64_t of_thread = 0, of_communicator = 0;
};

/// Calls that were started together; what a Work refers to.
struct Pending {
  Impl* owner = nullptr;                    ///< nullptr once over
  std::vector<std::unique_ptr<Task>> kept;  ///< the first `used` are of these calls, others of earlier ones
  std::size_t used = 0, unfinished = 0;
  std::exception_ptr failure;
  Clock::duration idle{};    ///< for so long nothing has moved while it was tested or waited for
  Clock::duration stuck{};   ///< nothing of its communicator
  Clock::time_point known;   ///< when that was so last
  Movements movements;       ///< of its thread and of its communicator then
  Clock::time_point looked;  ///< around
  bool reported = false;     ///< meanwhile, to the hub

  [[nodiscard]] std::span<const std::unique_ptr<Task>> tasks() const { return std::span(kept).first(used); }
  Task& add();
  void reuse(Impl* by);
  /// Something has moved, of this communicator; of another one.
  void moved();
  void others_moved();
  /// Nothing has until now, unless there were other movements since: what is queued before it counts, too,
  /// also where it moved while something else was waited for or tested. Where nobody looked meanwhile only a
  /// part of the time counts: others may be waiting for this rank.
  void still(Clock::time_point now, const Movements& until_now);
};
struct Queued {
  std::shared_ptr<Pending> work;
  Task* task;
};

/// How long a wait has gone on.
struct Wait {
  unsigned polls = 0;
  Clock::time_point since;  ///< of the first look at the clock after something had moved
  Clock::time_point stuck;  ///< after something of this communicator had moved
  Clock::time_point checked;
  Movements movements;           ///< when that was looked for
  Clock::time_point part;        ///< when a part of a message of this communicator was seen to have moved
  Clock::time_point other_part;  ///< of any
  bool reported = false;
  transport::Sleep* prepared = nullptr;  ///< whose next `wait` may sleep

  Wait() = default;
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait() { moved(); }
  /// Begins anew.
  void moved() {
    stuck = {};
    others_moved();
  }
  /// Nobody has to give up, but what is waited for has not moved.
  void others_moved() {
    polls = 0;
    since = {};
    if (prepared != nullptr) std::exchange(prepared, nullptr)->cancel();
  }
  /// This rank looks again, for the first time since `checked`.
  void look(Clock::time_point now) {
    const auto unseen = now - std::exchange(checked, now) - longest_unseen;
    if (unseen <= Clock::duration{}) return;
    for (Clock::time_point* from : {&since, &stuck, &part, &other_part})
      if (*from != Clock::time_point{}) *from = std::min(*from + unseen, now);
  }
};

}  // namespace tutti::detail
