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
  /// "WHAT: <text of errno>", and for want of descriptors the remedy.
  SystemError(const std::string& what, int number)
      : Error(ErrorCode::system, what + ": " + std::generic_category().message(number) + remedy(number)),
        number_(number) {}
  [[nodiscard]] int number() const noexcept { return number_; }
  /// What to do about it, "; " in front: for want of descriptors; else empty.
  static const char* remedy(int number) noexcept {
    if (number == EMFILE) return "; raise this process's limit of file descriptors (ulimit -n)";
    if (number == ENFILE) return "; raise this host's limit of file descriptors (sysctl fs.file-max)";
    return "";
  }

 private:
  int number_;
};

/// Throws SystemError.
[[noreturn]] inline void throw_errno(const std::string& what, int code = errno) {
  throw SystemError(what, code);
}

}  // namespace tutti
