/// \file
/// What has been heard about the other ranks: shared by all communicators of one session, since each notice
/// is delivered once.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
    bool orderly = false;  ///< said goodbye
    Clock::time_point since;
  };
  /// Reads what has arrived. Thread safe, like all of this.
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
  std::map<std::uint64_t, bootstrap::Notice> failures_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti
