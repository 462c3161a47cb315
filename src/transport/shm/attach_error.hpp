/// \file
/// What cross-memory attach is refused with (process_vm_readv(2)), as an Error.
#pragma once

#include <tutti/error.hpp>
#include <tutti/types.hpp>

namespace tutti::transport::shm {

/// `why`: errno of a read or write of the memory of `rank`, of this host, to which attach was permitted when
/// the communicator was made. Error(peer_lost) when that rank's process has ended, else Error(system).
Error attach_error(int why, Rank rank);

}  // namespace tutti::transport::shm
