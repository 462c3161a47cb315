#include "nccl/result.hpp"

#include <exception>
#include <mutex>
#include <new>
#include <string_view>

#include "nccl/log.hpp"

namespace tutti::nccl {

namespace {

struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& of_process() {
  static auto* const last = new LastError;  // never destroyed: threads may fail while static objects go
  return *last;
}

/// Static objects of a program may fail, too, when they go: after what the main thread has for itself.
struct OfThread {
  std::string failed, of_others;
  ~OfThread() { gone = true; }
  static inline thread_local bool gone = false;
};
thread_local OfThread of_thread;

// Errors of the runtime and of the driver name its function.
bool names_cuda(std::string_view text) {
  return text.find(" cuda") != std::string_view::npos || text.find(" cuMem") != std::string_view::npos;
}

ncclResult_t tell(ncclResult_t result, const char* function, const char* text) {
  std::string whole = std::string(function) + ": " + text;
  log(Level::warn, -1, whole);
  remember(std::move(whole));
  return result;
}

}  // namespace

ncclResult_t result_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_argument:
      return ncclInvalidArgument;
    case ErrorCode::invalid_schedule:
      return ncclInternalError;
    case ErrorCode::mismatch:
    case ErrorCode::unsupported:
    case ErrorCode::forked:
      return ncclInvalidUsage;
    case ErrorCode::timeout:
    case ErrorCode::peer_lost:
    case ErrorCode::aborted:
      return ncclRemoteError;
    case ErrorCode::unauthorized:
      return ncclSystemError;
    case ErrorCode::system:
      return names_cuda(error.what()) ? ncclUnhandledCudaError : ncclSystemError;
  }
  return ncclInternalError;
}

ncclResult_t handled(const char* function) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return tell(result_of(error), function, error.what());
    } catch (const Failure& failure) {
      return tell(failure.result(), function, failure.what());
    } catch (const std::bad_alloc&) {
      return tell(ncclSystemError, function, "out of memory");
    } catch (const std::exception& error) {
      return tell(ncclInternalError, function, error.what());
    }
  } catch (...) {  // no memory for the text
    return ncclSystemError;
  }
}

void remember(std::string text) {
  if (!OfThread::gone) of_thread.failed = text;
  LastError& last = of_process();
  const std::scoped_lock lock(last.mutex);
  last.text = std::move(text);
}

const char* last_error() noexcept {
  try {
    if (!OfThread::gone && !of_thread.failed.empty()) return of_thread.failed.c_str();
    LastError& last = of_process();
    const std::scoped_lock lock(last.mutex);
    if (OfThread::gone) {
      static thread_local auto* const late =
          new std::string;  // nothing of the thread's is destroyed after it
      *late = last.text;
      return late->c_str();
    }
    of_thread.of_others = last.text;
    return of_thread.of_others.c_str();
  } catch (...) {
    return "";
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Failure(ncclInvalidArgument, std::string(name) + " is null");
}

}  // namespace tutti::nccl
