#include "transport/few_allocations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "sanitized.hpp"

namespace tutti::transport::testing {

namespace {

constexpr int any_number = -1;
thread_local int allocations_left = any_number;

}  // namespace

FewAllocations::FewAllocations(int left) { allocations_left = left; }
FewAllocations::~FewAllocations() { allocations_left = any_number; }

}  // namespace tutti::transport::testing

// Sanitizers have operators of their own, beside which these cannot stand: AddressSanitizer has memory of
// those that are not replaced here (std::nothrow) go back to it, and Clang's ThreadSanitizer does not link.
#ifndef TUTTI_SANITIZED
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  int& left = tutti::transport::testing::allocations_left;
  void* const memory = left == 0 ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (left > 0) --left;
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
#endif
