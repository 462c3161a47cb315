/// \file
/// Threads of the library, in processes of others.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

namespace tutti {

/// For this thread, and for those that it starts.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Why a thread could not be started, with the remedy.
inline Error no_thread(const std::system_error& error) {
  return {ErrorCode::system, "cannot start a thread: " + error.code().message() +
                                 "; raise the limit (ulimit -u, or pids.max of the control group)"};
}

/// A thread that handles no signals of the application. Throws Error(system).
template <class Body>
std::unique_ptr<std::thread> quiet_thread(Body body) {
  const SignalsBlocked blocked;
  try {
    return std::make_unique<std::thread>(std::move(body));
  } catch (const std::system_error& error) {
    throw no_thread(error);
  }
}

}  // namespace tutti
