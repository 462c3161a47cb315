/// \file
/// The descriptors 0 to 2, which belong to the standard streams.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace tutti {

/// Where whoever started this has closed a standard stream, its descriptor would be that of what the library
/// opens first, which would get what is printed. What cannot be written to takes its place.
inline void keep_standard_descriptors() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace tutti
