/// \file
/// What sockets that carry data have in common, of FIFOs and of windows: slow readers, their control of
/// congestion, and how they send.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <span>
#include <string>

#include "base/uninterrupted.hpp"

namespace tutti::transport::tcp {

/// `congestion`: a control that the kernel knows; "system" for its default; empty: by distance, "reno" where
/// the round trip is shorter than a millisecond, else the default. Throws Error(invalid_argument) when this
/// process may not use it.
void check_congestion(const std::string& congestion);
/// Makes an authenticated connection one for data, `congestion` having been checked.
void carry_data(int socket, const std::string& congestion);
/// The control in force.
std::string congestion_of(int socket);

/// Sends what fits of these parts, one after the other: as sendmsg(2) returns it.
inline ssize_t send_parts(int socket, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return uninterrupted([&] { return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
}

}  // namespace tutti::transport::tcp
