/// \file
/// What has been heard about the other ranks: shared by all communicators of one session, since each notice
/// is delivered once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "bootstrap/session.hpp"

namespace tutti {

/// What a failure of another rank is on this one: a death or a mismatch is everybody's, all else its own.
constexpr ErrorCode code_for_others(ErrorCode code) {
  return code == ErrorCode::mismatch || code == ErrorCode::peer_lost ? code : ErrorCode::aborted;
}

namespace detail {
/// What std::bad_alloc on a rank means to all.
Error out_of_memory(Rank rank);
/// "rank 1", where all count it otherwise with its world rank, and in the same parentheses `more` about it.
/// Who reads of a rank of a split looks for it among the processes of the job.
std::string named(Rank rank, Rank world, const std::string& more = "");
}  // namespace detail

class Watch {
 public:
  explicit Watch(std::shared_ptr<bootstrap::Session> session) : session_(std::move(session)) {}
  /// The last communicator of the session on this rank is gone. During unwinding nothing is said, so the
  /// others see a loss, where they have not heard of a failure.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  struct Gone {
    bool orderly = false;  ///< said goodbye, as far as is known
    std::string_view did;  ///< "died", and the like
    Clock::time_point since;
  };
  /// The process of a rank of this host, to look at once there is no hub any more.
  void know(Rank world, pid_t process);
  /// Reads what has arrived, and without a hub looks whose process has ended. Thread safe, like all of this.
  void poll();
  /// Whether a world rank is gone.
  std::optional<Gone> gone(Rank world);
  /// Or has closed `communicator`, of those that are open here: before it was gone, which comes second then.
  std::optional<Gone> gone(Rank world, std::uint64_t communicator);
  void open(std::uint64_t communicator);
  void close(std::uint64_t communicator);
  /// Why another rank failed `communicator`, if one did.
  std::optional<bootstrap::Notice> failure(std::uint64_t communicator);
  /// Or aborted it, be it after a failure.
  std::optional<bootstrap::Notice> abort(std::uint64_t communicator);
  [[nodiscard]] bootstrap::Session& session() const { return *session_; }
  /// Failures of more communicators are forgotten, the oldest first, unless they are open here: everybody
  /// hears of all, also of those that it is no member of, or not any more.
  static constexpr std::size_t most_heard = 1024;

 private:
  void remember(bootstrap::Notice notice);
  std::shared_ptr<bootstrap::Session> session_;
  std::mutex mutex_;
  std::map<Rank, Gone> gone_;
  std::map<Rank, pid_t> processes_;
  std::map<std::uint64_t, bootstrap::Notice> failures_, aborts_;  ///< the first of each communicator
  std::deque<std::uint64_t> heard_;                               ///< of which ones, the latest last
  std::map<std::uint64_t, std::map<Rank, Gone>> open_;            ///< communicators, and who has closed them
  int exceptions_ = std::uncaught_exceptions();
};

/// A rank's part in one communicator. When it ends, and not the session with it, the others hear that. Where
/// an exception passes they hear of a failure, before that or the session's end.
class Membership {
 public:
  /// `watch` and `world`, every member's world rank, belong to the communicator: whether it is the last that
  /// holds the session is asked at the end.
  Membership(const std::shared_ptr<Watch>& watch, std::uint64_t communicator, Rank me,
             const std::vector<Rank>& world);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  /// The communicator exists: how making it fails is said elsewhere.
  void begin() { begun_ = true; }

 private:
  void announce_unwinding() const;
  const std::shared_ptr<Watch>& watch_;
  std::uint64_t communicator_;
  Rank me_;  ///< in it
  const std::vector<Rank>& world_;
  bool begun_ = false;
  int exceptions_ = std::uncaught_exceptions();
  std::uint64_t generation_ = fork_generation();
};

}  // namespace tutti
