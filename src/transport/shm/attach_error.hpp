/// \file
/// What cross-memory attach is refused with (process_vm_readv(2)), as an Error.
#pragma once

#include <sys/types.h>

#include <tutti/error.hpp>
#include <tutti/types.hpp>

namespace tutti::transport::shm {

/// A copy between this rank and a peer of this host, by attach, which was permitted when the communicator was
/// made.
struct AttachedCopy {
  Rank me = -1, peer = -1;
  pid_t process = -1;  ///< of the peer
  const void* mine = nullptr;
  const void* theirs = nullptr;
  bool is_put = false;  ///< from `mine`, else into it
};

/// `why`: errno of a copy that got no further than these addresses. Error(peer_lost) when the peer's process
/// has ended, else Error(system), which names the rank at fault.
Error attach_error(int why, const AttachedCopy& copy);

}  // namespace tutti::transport::shm
