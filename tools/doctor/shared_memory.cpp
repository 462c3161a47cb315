#include "doctor/shared_memory.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <system_error>

#include "base/file_descriptor.hpp"
#include "base/memory_file.hpp"

namespace tutti::doctor {

namespace {

int try_memfd() {
  constexpr std::size_t bytes = 4096;
  const FileDescriptor memory = make_memory_file("tutti-doctor");
  if (memory.get() < 0 || ::ftruncate(memory.get(), bytes) != 0) return errno;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return errno;
  ::munmap(mapped, bytes);
  return 0;
}

int try_unix_socket() {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // no more: the system chooses an abstract name
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket.get(), name, sizeof address.sun_family) != 0 || ::listen(socket.get(), 1) != 0)
    return errno;
  return 0;
}

// A child reads its parent, and writes there what it has read: the other way round Yama permits what it
// refuses between ranks.
int try_attach() {
  static volatile std::uint64_t word = 0x7475747469;
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody learns how a child ended
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    std::uint64_t value = 0;
    const iovec mine{&value, sizeof value};
    const iovec theirs{const_cast<std::uint64_t*>(&word), sizeof value};
    const auto moved = ::process_vm_readv(parent, &mine, 1, &theirs, 1, 0);
    if (moved != sizeof value || value != word) ::_exit(errno);
    ::_exit(::process_vm_writev(parent, &mine, 1, &theirs, 1, 0) == sizeof value ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

std::string text_of(int code) { return std::generic_category().message(code); }

Finding examine_memory(const SharedMemoryFacts& facts) {
  Finding finding{.area = "shared memory", .what = "shared memory (memfd, Unix sockets) works"};
  finding.data = {{"memfd", facts.memfd == 0}, {"unix_socket", facts.unix_socket == 0}};
  if (facts.memfd != 0) {
    finding.what = "shared memory cannot be made: memfd_create: " + text_of(facts.memfd);
    finding.remedy = facts.memfd == ENOMEM ? "free memory, or raise the limit of the control group"
                                           : "let the seccomp profile of the container permit memfd_create";
  } else if (facts.unix_socket != 0) {
    finding.what = "shared memory cannot be passed on: Unix socket: " + text_of(facts.unix_socket);
    finding.remedy = "let the seccomp profile of the container permit Unix sockets; raise \"ulimit -n\"";
  } else {
    return finding;
  }
  finding.level = Level::error;
  return finding;
}

std::string attach_remedy(const SharedMemoryFacts& facts) {
  if (facts.ptrace_scope == 3) return "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.d and boot again";
  if (facts.ptrace_scope.value_or(0) > 0)
    return "sysctl -w kernel.yama.ptrace_scope=0 (to stay: a file in /etc/sysctl.d), on the host of "
           "containers";
  if (facts.seccomp == 2)
    return "let the container permit process_vm_readv and process_vm_writev: --cap-add=SYS_PTRACE, or "
           "another seccomp profile";
  return "run all ranks as one user, in one process-id namespace";
}

Finding examine_attach(const SharedMemoryFacts& facts) {
  Finding finding{.area = "shared memory",
                  .what = "cross-memory attach (process_vm_readv, process_vm_writev) is permitted"};
  finding.data = {{"attach", facts.attach == 0}, {"seccomp", facts.seccomp}, {"ptrace_scope", nullptr}};
  if (facts.ptrace_scope) finding.data["ptrace_scope"] = *facts.ptrace_scope;
  if (facts.attach == 0) return finding;
  finding.level = Level::warning;
  finding.what =
      "cross-memory attach (process_vm_readv, process_vm_writev) is refused: " + text_of(facts.attach);
  if (facts.ptrace_scope.value_or(0) > 0)
    finding.what += "; kernel.yama.ptrace_scope is " + std::to_string(*facts.ptrace_scope);
  finding.what += "; large messages in plain memory always take two copies";
  finding.remedy = attach_remedy(facts);
  return finding;
}

}  // namespace

SharedMemoryFacts read_shared_memory(const Root& root) {
  SharedMemoryFacts facts{
      .memfd = try_memfd(), .unix_socket = try_unix_socket(), .attach = try_attach(), .ptrace_scope = {}};
  if (const auto scope = root.number("/proc/sys/kernel/yama/ptrace_scope"))
    facts.ptrace_scope = static_cast<int>(*scope);
  if (const auto mode = root.field("/proc/self/status", "Seccomp")) facts.seccomp = std::atoi(mode->c_str());
  return facts;
}

Findings examine(const SharedMemoryFacts& facts) { return {examine_memory(facts), examine_attach(facts)}; }

}  // namespace tutti::doctor
