#include "children.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/system_error.hpp"
#include "patient_lines.hpp"

namespace tutti {

bool Children::begin(Rank rank) {
  std::fflush(nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody learns how a child ended
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) throw Error(ErrorCode::peer_lost, "the process that starts the ranks died");
    children_.clear();
    return true;
  }
  // Not pidfd_open of <sys/pidfd.h>: glibc 2.36 declares it without C linkage.
  const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) throw_errno("pidfd_open");
  children_.push_back({rank, pid, FileDescriptor(pidfd)});
  return false;
}

std::optional<int> Children::status_of(const Child& child) const {
  siginfo_t end{};
  if (::waitid(P_PID, static_cast<id_t>(child.pid), &end, WEXITED | WNOHANG) != 0 || end.si_pid == 0)
    return std::nullopt;
  if (end.si_code == CLD_EXITED) return end.si_status;
  fmt::print(stderr, "{}: rank {} (pid {}) was killed by signal {} ({})\n", tool_, child.rank, child.pid,
             end.si_status, ::strsignal(end.si_status));
  return EXIT_FAILURE;
}

void Children::kill_all() const {
  for (const Child& child : children_) {
    fmt::print(stderr, "{}: rank {} (pid {}) did not end after a rank failed\n", tool_, child.rank,
               child.pid);
    ::kill(child.pid, SIGKILL);
  }
}

int Children::wait(std::chrono::milliseconds grace, bool failed) {
  int worst = EXIT_SUCCESS;
  std::optional<Deadline> deadline;
  if (failed) deadline.emplace(grace);
  while (!children_.empty()) {
    std::vector<pollfd> ready;
    ready.reserve(children_.size());
    for (const Child& child : children_)
      ready.push_back({.fd = child.pidfd.get(), .events = POLLIN, .revents = 0});
    const int count = ::poll(ready.data(), ready.size(), deadline ? deadline->poll_ms() : -1);
    if (count < 0 && errno != EINTR) throw_errno("poll");
    if (count == 0) {
      if (takes_more(STDOUT_FILENO) && takes_more(STDERR_FILENO)) {
        kill_all();
        deadline.reset();
      } else {
        deadline.emplace(grace);  // who waits there has yet to say what was wrong
      }
    }
    std::erase_if(children_, [&](const Child& child) {
      const auto status = status_of(child);
      if (!status) return false;
      if (*status != EXIT_SUCCESS && worst == EXIT_SUCCESS && !failed) deadline.emplace(grace);
      worst = std::max(worst, *status);
      return true;
    });
  }
  return worst;
}

}  // namespace tutti
