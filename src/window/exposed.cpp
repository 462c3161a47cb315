#include "window/exposed.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "communicator/check.hpp"

namespace tutti::detail {

namespace {

struct AllExposed {
  std::mutex mutex;
  std::vector<const ExposedMemory*> memories;
};
PerProcess<AllExposed> exposed_here;

}  // namespace

ExposedMemory::ExposedMemory(std::span<const std::byte> memory) : memory_(memory) {
  AllExposed& all = exposed_here.get();
  const std::lock_guard lock(all.mutex);
  all.memories.push_back(this);
}

// A child made by fork has no windows.
ExposedMemory::~ExposedMemory() {
  if (fork_generation() != generation_) return;
  AllExposed& all = exposed_here.get();
  const std::lock_guard lock(all.mutex);
  std::erase(all.memories, this);
}

bool ExposedMemory::overlaps(std::span<const std::byte> memory) {
  AllExposed& all = exposed_here.get();
  const std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.memories, [&](const ExposedMemory* one) {
    return overlap(one->memory_.data(), one->memory_.size(), memory.data(), memory.size());
  });
}

}  // namespace tutti::detail
