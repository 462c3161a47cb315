#include "transport/shm/mapped_memory.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "kernels/fold.hpp"
#include "transport/shm/attach_error.hpp"

namespace tutti::transport::shm {

namespace {

std::atomic_ref<std::uint64_t> word(std::byte* at) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at));
}

// What is done is there before anything that this rank puts next, and was read before anything that it gets
// next. Processors other than x86 would have it in any order, and compilers may; where processes attach, the
// kernel sees to it. An atomic is no fence by itself: on ARM before LSE it is a loop whose store later
// accesses may overtake.
void keep_order() {
#ifndef __SANITIZE_THREAD__  // which knows no fences
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

}  // namespace

void LocalMemory::notify(std::uint32_t id) {
  const auto total = word(places_.counters + id * places_.stride);  // this rank alone writes it
  total.store(total.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  ++started_;
}

void MappedMemory::put(std::span<const Block> blocks) {
  for (const Block& block : blocks)
    kernels::copy_block(places_.theirs + block.remote, places_.mine + block.local, block.bytes);
  keep_order();
  ++started_;
}

void MappedMemory::get(std::span<const Block> blocks) {
  for (const Block& block : blocks)
    kernels::copy_block(places_.mine + block.local, places_.theirs + block.remote, block.bytes);
  keep_order();
  ++started_;
}

void MappedMemory::fetch_add(std::size_t offset, std::uint64_t value, std::uint64_t* before) {
  *before = word(places_.theirs + offset).fetch_add(value);
  keep_order();
  ++started_;
}

void MappedMemory::compare_swap(std::size_t offset, std::uint64_t expected, std::uint64_t desired,
                                std::uint64_t* before) {
  word(places_.theirs + offset).compare_exchange_strong(expected, desired);
  keep_order();
  *before = expected;
  ++started_;
}

std::string AttachedMemory::explain() const {
  return "cross-memory attach, because it is plain memory of another process (memory from allocate would be "
         "mapped); atomics by its owner";
}

// The blocks of a batch share system calls. The kernel may stop short at any byte.
void AttachedMemory::move(std::span<const Block> blocks, bool is_put) {
  constexpr std::size_t pieces = 256;  // of one call; IOV_MAX is 1024
  std::array<iovec, pieces> mine{};
  std::array<iovec, pieces> theirs{};
  std::size_t skip = 0;  // bytes of the first block that are done
  while (!blocks.empty()) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (const Block& block : blocks.first(std::min(blocks.size(), pieces))) {
      const std::size_t done = count == 0 ? skip : 0;
      mine[count] = {places_.mine + block.local + done, block.bytes - done};
      theirs[count] = {places_.theirs + block.remote + done, block.bytes - done};
      bytes += mine[count++].iov_len;
    }
    const ssize_t moved = bytes == 0 ? 0
                          : is_put
                              ? ::process_vm_writev(process_, mine.data(), count, theirs.data(), count, 0)
                              : ::process_vm_readv(process_, mine.data(), count, theirs.data(), count, 0);
    if (moved < 0 || (moved == 0 && bytes != 0)) {
      const int why = errno;
      if (why == ESRCH) ended_();
      throw attach_error(why, {.me = me_,
                               .peer = target_,
                               .process = process_,
                               .mine = mine[0].iov_base,
                               .theirs = theirs[0].iov_base,
                               .is_put = is_put});
    }
    auto left = static_cast<std::size_t>(moved) + skip;
    while (!blocks.empty() && left >= blocks.front().bytes) {
      left -= blocks.front().bytes;
      blocks = blocks.subspan(1);
    }
    skip = left;
  }
  ++started_;
}

}  // namespace tutti::transport::shm
