/// \file
/// What sockets that carry data have in common, of FIFOs and of windows: slow readers, and their control of
/// congestion.
#pragma once

#include <string>

namespace tutti::transport::tcp {

/// `congestion`: a control that the kernel knows; "system" for its default; empty: by distance, "reno" where
/// the round trip is shorter than a millisecond, else the default. Throws Error(invalid_argument) when this
/// process may not use it.
void check_congestion(const std::string& congestion);
/// Makes an authenticated connection one for data, `congestion` having been checked.
void carry_data(int socket, const std::string& congestion);
/// The control in force.
std::string congestion_of(int socket);

}  // namespace tutti::transport::tcp
