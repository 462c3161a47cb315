/// \file
/// Failures of RDMA as errors that a person can act on.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <string>

#include <tutti/error.hpp>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

/// Where something failed.
struct Place {
  Rank rank = -1;  ///< this one
  Rank peer = -1;
  std::string device;
  int port = 1;
};

/// What a queue pair tried before it gave up.
struct Patience {
  int timeout = 0;
  int retries = 0;
};

/// The error of a work request that failed: peer, device, port, status, the budget that ran out, and the
/// remedy. Error(peer_lost) where the peer did not answer, Error(system) otherwise. At fault is this rank
/// where its own device or memory is what failed, else the peer.
Error completion_error(const Place& place, ibv_wc_status status, std::uint32_t vendor_code,
                       const Patience& patience);

/// The errno of a call that failed with this result: most providers return it, some its negative, some -1.
inline int errno_of(int result) { return result == -1 ? errno : std::abs(result); }
/// An errno that says that there is no way to the peer's address.
bool is_unreachable(int code);
/// Why a call failed, and the remedy: "Permission denied; ...".
std::string call_text(int code);
/// The error of a call that failed: "verbs: creating a queue pair on rx0 port 1 for rank 3: Cannot allocate
/// memory; ...". At fault is this rank, whose device or limit it is; the peer where its address cannot be
/// reached.
Error call_error(const Place& place, const std::string& what, int code);
/// What a call has made. Throws `call_error` with errno for nullptr.
template <class T>
T* made(T* object, const Place& place, const char* what) {
  if (object == nullptr) throw call_error(place, what, errno);
  return object;
}

/// An asynchronous event after which what it is about does not work any more. Ports come and go.
bool is_fatal(ibv_event_type event);
/// The error of a fatal event. At fault is this rank, whose device it is; the peer where its requests were
/// bad.
Error event_error(const Place& place, ibv_event_type event);

}  // namespace tutti::transport::verbs
