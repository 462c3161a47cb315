/// \file
/// What has been heard about the other ranks: shared by all communicators of one session, since each notice
/// is delivered once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "bootstrap/session.hpp"

namespace tutti {

class Watch {
 public:
  explicit Watch(std::shared_ptr<bootstrap::Session> session) : session_(std::move(session)) {}
  /// The last communicator of the session on this rank is gone. During unwinding nothing is said, so the
  /// others see a loss.
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
  /// Why another rank failed `communicator`, if one did.
  std::optional<bootstrap::Notice> failure(std::uint64_t communicator);
  [[nodiscard]] bootstrap::Session& session() const { return *session_; }

 private:
  std::shared_ptr<bootstrap::Session> session_;
  std::mutex mutex_;
  std::map<Rank, Gone> gone_;
  std::map<Rank, pid_t> processes_;
  std::map<std::uint64_t, bootstrap::Notice> failures_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti
