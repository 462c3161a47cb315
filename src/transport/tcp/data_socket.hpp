/// \file
/// What sockets that carry data have in common, of FIFOs and of windows.
#pragma once

#include <string>

namespace tutti::transport::tcp {

/// Makes an authenticated connection one for data; `congestion`: see congestion.hpp.
void carry_data(int socket, const std::string& congestion);

}  // namespace tutti::transport::tcp
