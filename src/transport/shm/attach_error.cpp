#include "transport/shm/attach_error.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

namespace tutti::transport::shm {

namespace {

constexpr const char* own_memory =
    "this rank's memory is shorter than its call says, or no longer mapped, or read-only, or of a file that "
    "has become shorter";

// Of an address that the kernel refuses it does not say whose. Where what is copied can be read, as it was to
// be, it is where that would go: a process reads of itself what it lends to none, secret memory or CUDA's.
bool mine_is_bad(const AttachedCopy& copy) {
  std::byte byte{};
  const iovec spare{&byte, 1};
  const iovec copied{const_cast<void*>(copy.is_put ? copy.mine : copy.theirs), 1};
  if (copy.is_put) return ::process_vm_writev(::getpid(), &copied, 1, &spare, 1, 0) != 1;
  return ::process_vm_readv(copy.process, &spare, 1, &copied, 1, 0) == 1;
}

const char* meaning_of(int why, bool is_put) {
  switch (why) {
    case ESRCH:
      return "that rank died";
    case EFAULT:
      if (is_put)
        return "that rank has freed memory that is in use, or it is read-only, or memory that the kernel "
               "lends "
               "to no process (memory from Communicator::allocate is mapped)";
      return "that rank has freed memory that is in use, or it is memory that the kernel lends to no "
             "process (memory from Communicator::allocate is mapped)";
    case EPERM:
    case ENOSYS:
      return "it was permitted when the communicator was made; since then one of both has changed its "
             "user, capabilities, PR_SET_DUMPABLE or seccomp filter, or kernel.yama.ptrace_scope was "
             "raised: do so before communicators are made, or make a new one, which tries again";
    default:
      return "see process_vm_readv(2)";
  }
}

}  // namespace

Error attach_error(int why, const AttachedCopy& copy) {
  const bool own_fault = why == EFAULT && mine_is_bad(copy);
  return {
      why == ESRCH ? ErrorCode::peer_lost : ErrorCode::system,
      fmt::format("cross-memory attach to rank {}: {}; {}", copy.peer, std::generic_category().message(why),
                  own_fault ? own_memory : meaning_of(why, copy.is_put)),
      {own_fault ? copy.me : copy.peer}};
}

}  // namespace tutti::transport::shm
