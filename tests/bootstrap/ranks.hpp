/// \file
/// Ranks as threads and as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "bootstrap/session.hpp"
#include "thrown.hpp"

namespace tutti::bootstrap::test {

using namespace std::chrono_literals;
using SessionPointer = std::shared_ptr<Session>;
using tutti::test::Thrown;
using tutti::test::thrown_by;

/// Runs `body(rank)` on `size` threads and joins them. An exception in a rank fails the test.
inline void on_threads(int size, const std::function<void(Rank)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

/// The sessions of a whole group, joined by as many threads.
inline std::vector<SessionPointer> form_group(int size, std::string_view interface = "") {
  const auto id = UniqueId::create(interface);
  std::vector<SessionPointer> sessions(static_cast<std::size_t>(size));
  on_threads(size, [&](Rank rank) {
    sessions[static_cast<std::size_t>(rank)] = Session::join(id, rank, size, 10s);
  });
  return sessions;
}

inline void leave_all(std::vector<SessionPointer>& sessions) {
  on_threads(static_cast<int>(sessions.size()),
             [&](Rank rank) { sessions[static_cast<std::size_t>(rank)]->leave(5s); });
}

inline Bytes bytes(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

/// The next notice within `limit`.
inline std::optional<Notice> next_notice(Session& session, std::chrono::milliseconds limit = 2s) {
  for (const Deadline deadline(limit); !deadline.passed(); std::this_thread::yield())
    if (auto notice = session.poll()) return notice;
  return std::nullopt;
}

/// How many descriptors this process has.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// A child process that runs `body` and exits with what it returns (99: it threw).
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      static_cast<void>(!::write(2, error.what(), std::strlen(error.what())));
    }
    ::_exit(code);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  /// Returns when all of its threads stand still, or it has ended.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    siginfo_t seen{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &seen, WSTOPPED | WEXITED | WNOWAIT);
  }
  [[nodiscard]] pid_t process() const { return pid_; }
  /// Exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

}  // namespace tutti::bootstrap::test
