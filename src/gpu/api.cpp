#include "gpu/api.hpp"

#include <mutex>
#include <utility>

#include <tutti/error.hpp>

namespace tutti::gpu {

namespace {

std::mutex mutex;
std::shared_ptr<Api> replacement;

}  // namespace

std::shared_ptr<Api> api() {
  {
    const std::scoped_lock lock(mutex);
    if (replacement) return replacement;
  }
#ifdef TUTTI_HAVE_CUDA
  // Never destroyed: static objects of a program may free memory when they go.
  static const auto* const runtime = new std::shared_ptr<Api>(cuda_api());
  return *runtime;
#else
  throw Error(ErrorCode::unsupported,
              "this build of tutti has no CUDA: configure with -DTUTTI_CUDA=ON where nvcc is installed");
#endif
}

void replace_api(std::shared_ptr<Api> other) {
  const std::scoped_lock lock(mutex);
  replacement = std::move(other);
}

}  // namespace tutti::gpu
