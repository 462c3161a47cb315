#include "perf/launch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>

#include <tutti/error.hpp>
#include <tutti/local.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "base/system_error.hpp"

namespace tutti::perf {

namespace {

/// Pins this thread to one of the cores that this process may use, round-robin over ranks.
void pin(Rank rank, const cpu_set_t& allowed) {
  int turn = rank % CPU_COUNT(&allowed);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || turn-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) throw_errno("sched_setaffinity");
    return;
  }
}

cpu_set_t allowed_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) throw_errno("sched_getaffinity");
  return allowed;
}

struct Child {
  Rank rank;
  pid_t pid;
  FileDescriptor pidfd;
};

/// Returns 0 in the child, which dies with its parent.
pid_t fork_rank(Rank rank, std::vector<Child>& children) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) throw Error(ErrorCode::peer_lost, "the process that starts the ranks died");
    return 0;
  }
  // Not pidfd_open of <sys/pidfd.h>: glibc 2.36 declares it without C linkage.
  const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) throw_errno("pidfd_open");
  children.push_back({rank, pid, FileDescriptor(pidfd)});
  return pid;
}

/// The id that the child of rank 0 made: its listening socket must be in the process that is rank 0.
UniqueId read_id(int pipe, const Deadline& deadline) {
  UniqueId id;
  pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, deadline.poll_ms()) <= 0 ||
      ::read(pipe, id.bytes.data(), UniqueId::size) != static_cast<ssize_t>(UniqueId::size))
    throw Error(ErrorCode::peer_lost, "rank 0 could not make the group's id", {0});
  return id;
}

void report(const char* tool, const Child& child, const siginfo_t& end) {
  if (end.si_code != CLD_EXITED)
    fmt::print(stderr, "{}: rank {} (pid {}) was killed by signal {} ({})\n", tool, child.rank, child.pid,
               end.si_status, ::strsignal(end.si_status));
}

/// Reaps the children. After the first failure the others, who learn of it from the library, get `grace` to
/// end.
bool wait_for(const char* tool, std::vector<Child>& children, std::chrono::milliseconds grace) {
  bool well = true;
  std::optional<Deadline> deadline;
  while (!children.empty()) {
    std::vector<pollfd> ready;
    ready.reserve(children.size());
    for (const Child& child : children)
      ready.push_back({.fd = child.pidfd.get(), .events = POLLIN, .revents = 0});
    const int count = ::poll(ready.data(), ready.size(), deadline ? deadline->poll_ms() : -1);
    if (count < 0 && errno != EINTR) throw_errno("poll");
    if (count == 0) {
      for (const Child& child : children) {
        fmt::print(stderr, "{}: rank {} (pid {}) did not end after another rank failed\n", tool, child.rank,
                   child.pid);
        ::kill(child.pid, SIGKILL);
      }
      deadline.reset();
    }
    std::erase_if(children, [&](const Child& child) {
      siginfo_t end{};
      if (::waitid(P_PID, static_cast<id_t>(child.pid), &end, WEXITED | WNOHANG) != 0 || end.si_pid == 0)
        return false;
      report(tool, child, end);
      const bool failed = end.si_code != CLD_EXITED || end.si_status != 0;
      if (failed && well) deadline.emplace(grace);
      well = well && !failed;
      return true;
    });
  }
  return well;
}

/// Passes through a communicator whose rank failed, which lets the others know, when that was printed.
struct Printed {};

}  // namespace

bool run_threads(const Settings& settings, const Body& body) {
  const cpu_set_t allowed = allowed_cores();
  std::atomic<bool> well = true;
  run_local(
      settings.ranks,
      [&](Communicator& comm) {
        if (settings.pin) pin(comm.rank(), allowed);
        if (!body(comm)) well = false;
      },
      settings.options);
  return well;
}

bool run_processes(const char* tool, const Settings& settings, const Body& body) {
  const cpu_set_t allowed = allowed_cores();
  const Deadline deadline(settings.options.timeout);
  const auto as_rank = [&](Rank rank, const UniqueId& id) {
    if (settings.pin) pin(rank, allowed);
    Communicator comm(id, rank, settings.ranks, settings.options);
    return body(comm);
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
  FileDescriptor read_end(ends[0]), write_end(ends[1]);

  std::vector<Child> children;
  if (fork_rank(0, children) == 0) {
    const UniqueId id = UniqueId::create(settings.options.interface);
    if (::write(write_end.get(), id.bytes.data(), UniqueId::size) < 0) throw_errno("write");
    write_end.reset();
    return as_rank(0, id);
  }
  write_end.reset();
  const UniqueId id = read_id(read_end.get(), deadline);
  for (Rank rank = 1; rank < settings.ranks; ++rank)
    if (fork_rank(rank, children) == 0) return as_rank(rank, id);
  return wait_for(tool, children, settings.options.timeout + std::chrono::seconds(5));
}

bool run_ranks(const char* tool, const Settings& settings, const Body& body) {
  const auto printing = [&](Communicator& comm) {
    try {
      return body(comm);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: rank {}: {}\n", tool, comm.rank(), error.what());
      throw Printed();
    }
  };
  try {
    if (settings.ranks > 0 && settings.threads) return run_threads(settings, printing);
    if (settings.ranks > 0) return run_processes(tool, settings, printing);
    Communicator comm = Communicator::from_environment(settings.options);
    return printing(comm);
  } catch (const Printed&) {
    return false;
  }
}

}  // namespace tutti::perf
