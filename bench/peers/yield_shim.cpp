/// \file
/// Lets MPICH run more ranks than cores: loaded before it (LD_PRELOAD), gives the core away when UCX has
/// nothing to do.
///
/// Debian's MPICH never yields while it waits, so that with more ranks than cores a message of 8 bytes takes
/// scheduler ticks. It waits in calls of ucp_worker_progress, which returns 0 when nothing happened; after a
/// few such calls in a row this one yields.
#include <dlfcn.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  constexpr int idle_calls_before_yield = 4;
  static const auto progress =
      reinterpret_cast<unsigned (*)(void*)>(::dlsym(RTLD_NEXT, "ucp_worker_progress"));
  thread_local int idle_calls = 0;
  const unsigned events = progress(worker);
  idle_calls = events == 0 ? idle_calls + 1 : 0;
  if (idle_calls == idle_calls_before_yield) {
    idle_calls = 0;
    ::sched_yield();
  }
  return events;
}
