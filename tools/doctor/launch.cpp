#include "doctor/launch.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/system_error.hpp"
#include "bootstrap/rendezvous.hpp"

namespace tutti::doctor {

namespace {

void become_rank(int rank, int ranks, const UniqueId& id, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
  const auto say = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  for (const char* name : {"TUTTI_RANK", "TUTTI_LOCAL_RANK"}) say(name, std::to_string(rank));
  for (const char* name : {"TUTTI_SIZE", "TUTTI_LOCAL_SIZE"}) say(name, std::to_string(ranks));
  say("TUTTI_ID", id.to_string());
}

int wait_for_all(std::map<pid_t, int>& rank_of) {
  int worst = 0;
  while (!rank_of.empty()) {
    int status = 0;
    const pid_t pid = ::wait(&status);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) throw_errno("wait");
    if (WIFSIGNALED(status))
      fmt::print(stderr, "tutti-doctor: rank {} was killed by signal {} ({})\n", rank_of[pid],
                 WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
    rank_of.erase(pid);
  }
  return worst;
}

}  // namespace

std::optional<int> start_ranks(int ranks, const std::string& interface) {
  const UniqueId id = bootstrap::reserve_id(interface);
  const pid_t parent = ::getpid();
  std::map<pid_t, int> rank_of;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) {
      become_rank(rank, ranks, id, parent);
      return std::nullopt;
    }
    rank_of[pid] = rank;
  }
  return wait_for_all(rank_of);
}

}  // namespace tutti::doctor
