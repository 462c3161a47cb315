#include "transport/shm/attach_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace tutti::transport::shm {

namespace {

const char* meaning_of(int why) {
  switch (why) {
    case ESRCH:
      return "that rank died";
    case EFAULT:
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

Error attach_error(int why, Rank rank) {
  return {why == ESRCH ? ErrorCode::peer_lost : ErrorCode::system,
          fmt::format("cross-memory attach to rank {}: {}; {}", rank, std::generic_category().message(why),
                      meaning_of(why)),
          {rank}};
}

}  // namespace tutti::transport::shm
