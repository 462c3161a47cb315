// Stands in for CUDA's driver, libcuda.so.1: it knows memory that a test has told it of.
#include <cstdint>
#include <mutex>
#include <vector>

namespace {

struct Known {
  std::uint64_t begin, bytes;
  unsigned type;
  bool managed;
};
std::mutex mutex;
std::vector<Known> all;
int questions = 0;

}  // namespace

extern "C" {

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  const std::scoped_lock lock(mutex);
  ++questions;
  for (const Known& known : all) {
    if (pointer < known.begin || pointer >= known.begin + known.bytes) continue;
    *static_cast<unsigned*>(value) = attribute == 2 ? known.type : static_cast<unsigned>(known.managed);
    return 0;
  }
  return 1;  // CUDA_ERROR_INVALID_VALUE
}

void fake_cuda_add(const void* memory, std::uint64_t bytes, unsigned type, bool managed) {
  const std::scoped_lock lock(mutex);
  all.push_back({reinterpret_cast<std::uintptr_t>(memory), bytes, type, managed});
}

void fake_cuda_clear() {
  const std::scoped_lock lock(mutex);
  all.clear();
}

int fake_cuda_questions() {
  const std::scoped_lock lock(mutex);
  return questions;
}
}
