#include "gpu/few_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <bit>
#include <cerrno>

namespace tutti::test {

namespace {

thread_local bool few = false;
thread_local int threads_left = 0;

}  // namespace

FewThreads::FewThreads(int left) {
  few = true;
  threads_left = left;
}
FewThreads::~FewThreads() { few = false; }

}  // namespace tutti::test

// Of a sanitizer that is a part of this program, as Clang's are: what comes after this program is the
// system's, whose threads it does not know.
extern "C" [[gnu::weak]] int __interceptor_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                          void* (*start)(void*), void* argument) noexcept;

// In place of the system's, which it calls.
extern "C" int pthread_create(pthread_t* __restrict thread, const pthread_attr_t* __restrict attributes,
                              void* (*start)(void*), void* __restrict argument) noexcept {
  static const auto of_the_system =
      __interceptor_pthread_create != nullptr
          ? &__interceptor_pthread_create
          : std::bit_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (tutti::test::few && tutti::test::threads_left-- <= 0) return EAGAIN;
  return of_the_system(thread, attributes, start, argument);
}
