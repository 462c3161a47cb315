/// \file
/// Threads of the library, in processes of others.
#pragma once

#include <csignal>
#include <memory>
#include <thread>
#include <utility>

namespace tutti {

/// A thread that handles no signals of the application.
template <class Body>
std::unique_ptr<std::thread> quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = std::make_unique<std::thread>(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace tutti
