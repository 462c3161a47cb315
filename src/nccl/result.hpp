/// \file
/// From tutti's errors to NCCL's codes, and the text that ncclGetLastError gives.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <tutti/error.hpp>

#include "nccl/abi.hpp"

namespace tutti::nccl {

/// An error with a code of NCCL's own.
class Failure : public std::runtime_error {
 public:
  Failure(ncclResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  [[nodiscard]] ncclResult_t result() const noexcept { return result_; }

 private:
  ncclResult_t result_;
};

[[nodiscard]] ncclResult_t result_of(const Error& error);

/// The code of the exception that is being handled; its text is remembered, and logged as a warning.
ncclResult_t handled(const char* function) noexcept;
/// As the last error of this thread, and of the process.
void remember(std::string text);
/// The last error's text: of this thread, or, where it had none, of the process. Valid on this thread until
/// its next call.
const char* last_error() noexcept;

/// No exception crosses the C boundary: the result of `body()`, which returns an ncclResult_t, or its
/// exception's.
template <class Body>
ncclResult_t guarded(const char* function, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return handled(function);
  }
}

/// Throws Failure(ncclInvalidArgument) for nullptr.
void require(const void* pointer, const char* name);

}  // namespace tutti::nccl
