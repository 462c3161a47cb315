/// \file
/// The congestion control of data connections.
#pragma once

#include <string>

namespace tutti::transport::tcp {

/// `wanted`: a name that the kernel knows; "system" for its default; empty: by distance, "reno" where the
/// round trip is shorter than a millisecond, else the default. Throws Error(invalid_argument) when this
/// process may not use it.
void check_congestion(const std::string& wanted);
/// On a connected socket, `wanted` having been checked.
void control_congestion(int socket, const std::string& wanted);
/// The one in force.
std::string congestion_of(int socket);

}  // namespace tutti::transport::tcp
