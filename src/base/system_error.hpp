/// \file
/// errno as an Error.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include <tutti/error.hpp>

namespace tutti {

/// Throws Error(system) "WHAT: <text of errno>".
[[noreturn]] inline void throw_errno(const std::string& what, int code = errno) {
  throw Error(ErrorCode::system, what + ": " + std::generic_category().message(code));
}

}  // namespace tutti
