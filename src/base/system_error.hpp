/// \file
/// errno as an Error.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include <tutti/error.hpp>

namespace tutti {

/// An Error(system) that remembers the errno that it tells.
class SystemError : public Error {
 public:
  /// "WHAT: <text of errno>".
  SystemError(const std::string& what, int number)
      : Error(ErrorCode::system, what + ": " + std::generic_category().message(number)), number_(number) {}
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// Throws SystemError.
[[noreturn]] inline void throw_errno(const std::string& what, int code = errno) {
  throw SystemError(what, code);
}

}  // namespace tutti
