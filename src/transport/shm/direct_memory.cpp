#include "transport/shm/direct_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/fault_in.hpp"
#include "base/mappings.hpp"
#include "transport/shm/attach_error.hpp"
#include "transport/shm/map_error.hpp"

namespace tutti::transport::shm {

namespace {

std::byte* map_file(int fd, std::uint64_t offset, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                    static_cast<off_t>(offset));
  if (at == MAP_FAILED) throw_unmapped("registered memory", bytes, errno);
  return static_cast<std::byte*>(at);
}

// Moves the mapping at `fresh`, which holds a copy of `data`, over `data`; without it where that is refused.
bool moved_over(std::byte* data, void* fresh, std::size_t bytes) {
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) != MAP_FAILED) return true;
  const int why = errno;
  ::munmap(fresh, bytes);
  errno = why;
  return false;
}

// By memory of this process alone. False where there is no room for that.
bool replace_by_copy(std::byte* data, std::size_t bytes) {
  void* const fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  std::memcpy(fresh, data, bytes);
  return moved_over(data, fresh, bytes);
}

}  // namespace

DirectMemory::DirectMemory(std::shared_ptr<Arena> arena, int me, std::vector<pid_t> pids,
                           std::vector<Rank> ranks, bool can_attach)
    : arena_(std::move(arena)),
      me_(me),
      pids_(std::move(pids)),
      ranks_(std::move(ranks)),
      can_attach_(can_attach),
      same_process_(std::ranges::all_of(pids_, [this](pid_t pid) { return pid == pids_[0]; })),
      dumpable_(::prctl(PR_GET_DUMPABLE)) {
  free_[arena_->layout().window_offset + static_cast<std::uint64_t>(me) * Layout::window_bytes] =
      Layout::window_bytes;
}

DirectMemory::~DirectMemory() {
  while (!regions_.empty() && fork_generation() == generation_) release(regions_.begin()->second.data);
  for (auto& [key, mapping] : mappings_) ::munmap(mapping.data, mapping.bytes);
}

DirectMemory::Pieces::node_type DirectMemory::reserve(std::size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    auto piece = free_.extract(it);
    piece.mapped() = bytes;
    return piece;
  }
  throw Error(ErrorCode::invalid_argument, "no room for " + std::to_string(bytes) +
                                               " bytes of registered memory: a rank's limit is " +
                                               std::to_string(Layout::window_bytes) + " bytes");
}

void DirectMemory::give_back(Pieces::node_type piece) noexcept {
  if (::fallocate(arena_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(piece.key()),
                  static_cast<off_t>(piece.mapped())) != 0)
    empties_ = false;
  const auto inserted = free_.insert(std::move(piece));
  assert(inserted.inserted);
  const auto at = inserted.position;
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at != free_.begin())
    if (const auto previous = std::prev(at); previous->first + previous->second == at->first) {
      previous->second += at->second;
      free_.erase(at);
    }
}

template <class Place>
std::byte* DirectMemory::add_region(std::size_t bytes, bool adopted, Place place) {
  auto piece = reserve(bytes);
  const std::uint64_t offset = piece.key();
  try {
    Region& region = regions_[offset];
    region.data = place(offset);
    region.bytes = bytes;
    region.adopted = adopted;
    region.piece = std::move(piece);
    held_ += bytes;
    return region.data;
  } catch (...) {
    regions_.erase(offset);
    give_back(std::move(piece));
    throw;
  }
}

std::byte* DirectMemory::allocate(std::size_t bytes) {
  if (bytes > Layout::window_bytes)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(bytes) +
                    " bytes or more of registered memory are asked for; a rank's limit is " +
                    std::to_string(Layout::window_bytes));
  bytes = whole_pages(bytes);
  return add_region(bytes, false, [&](std::uint64_t offset) {
    std::byte* const data = map_file(arena_->fd(), offset, bytes);
    if (!empties_) std::memset(data, 0, bytes);
    return data;
  });
}

void DirectMemory::adopt(std::byte* data, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(data) % page_bytes() != 0 || bytes % page_bytes() != 0 || bytes == 0)
    throw Error(ErrorCode::invalid_argument,
                "register_memory takes whole pages (address and size multiples of " +
                    std::to_string(page_bytes()) + "); use allocate, or align the memory");
  if (!private_anonymous(data, bytes))
    throw Error(ErrorCode::invalid_argument,
                "register_memory takes private anonymous memory only, not files, shared or already "
                "registered memory");
  add_region(bytes, true, [&](std::uint64_t offset) {
    std::byte* const fresh = map_file(arena_->fd(), offset, bytes);
    std::memcpy(fresh, data, bytes);
    if (!moved_over(data, fresh, bytes))
      throw_unmapped("registered memory in place of what was there", bytes, errno);
    return data;
  });
}

void DirectMemory::release(std::byte* data) noexcept {
  // A child made by fork shares the file with its parent, which goes on using it.
  if (fork_generation() != generation_) return;
  for (auto it = regions_.begin(); it != regions_.end(); ++it) {
    if (it->second.data != data) continue;
    Region region = std::move(it->second);
    regions_.erase(it);
    if (region.adopted && !replace_by_copy(data, region.bytes)) {
      keep_to_itself(data, region.bytes, region.piece.key());
      return;
    }
    if (!region.adopted) ::munmap(region.data, region.bytes);
    held_ -= region.bytes;
    give_back(std::move(region.piece));
    return;
  }
}

// Where there is no room for a copy: what this process writes from now on is copied page by page, and what it
// does not stays in the file, which is not given back therefore.
void DirectMemory::keep_to_itself(std::byte* data, std::size_t bytes, std::uint64_t offset) noexcept {
  const auto map = [&](int how) {
    return ::mmap(data, bytes, PROT_READ | PROT_WRITE, how | MAP_FIXED | MAP_NORESERVE, arena_->fd(),
                  static_cast<off_t>(offset)) != MAP_FAILED;
  };
  // Linux may take away what was there before it refuses.
  if (!map(MAP_PRIVATE)) map(MAP_SHARED);
}

MemoryOffer DirectMemory::offer(const void* data, std::size_t bytes) const {
  MemoryOffer offer;
  offer.address = reinterpret_cast<std::uint64_t>(data);
  offer.bytes = bytes;
  const auto* begin = static_cast<const std::byte*>(data);
  for (const auto& [offset, region] : regions_) {
    if (begin < region.data || begin + bytes > region.data + region.bytes) continue;
    offer.in_region = static_cast<std::uint64_t>(begin - region.data);
    offer.region_offset = offset;
    offer.region_bytes = region.bytes;
    break;
  }
  return offer;
}

Reach DirectMemory::reach(const MemoryOffer& offer) const {
  if (offer.bytes == 0 || offer.region_bytes != 0 || same_process_) return Reach::mapped;
  return can_attach_ ? Reach::attach : Reach::none;
}

bool DirectMemory::may_still_attach() const { return ::prctl(PR_GET_DUMPABLE) == dumpable_; }

std::byte* DirectMemory::map(int local, const MemoryOffer& offer) {
  if (reach_as_threads(local))
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a thread's own address
    return reinterpret_cast<std::byte*>(offer.address);
  const std::pair place(local, offer.region_offset);
  if (const auto known = mappings_.find(place);
      known != mappings_.end() && known->second.bytes == offer.region_bytes)
    return known->second.data + offer.in_region;
  unmap(local, offer.region_offset, offer.region_bytes);
  Mapping& mapping = mappings_[place];
  mapping.data = map_file(arena_->fd(), offer.region_offset, offer.region_bytes);
  mapping.bytes = offer.region_bytes;
  ::madvise(mapping.data, mapping.bytes, MADV_DONTDUMP);  // its owner's dump has it
  return mapping.data + offer.in_region;
}

// No two of a peer's mappings overlap.
void DirectMemory::unmap(int local, std::uint64_t offset, std::uint64_t bytes) noexcept {
  auto it = mappings_.lower_bound({local, offset});
  if (it != mappings_.begin())
    if (const auto before = std::prev(it);
        before->first.first == local && before->first.second + before->second.bytes > offset)
      it = before;
  while (it != mappings_.end() && it->first.first == local && it->first.second < offset + bytes) {
    ::munmap(it->second.data, it->second.bytes);
    it = mappings_.erase(it);
  }
}

void DirectMemory::fault_in(int local, const MemoryOffer& offer) {
  if (offer.region_bytes == 0 || (local != me_ && reach_as_threads(local))) return;
  tutti::fault_in(map(local, offer), offer.region_bytes);
}

// Dekker: of a rank that enters and one that closes, one at least sees the other.
bool DirectMemory::enter() {
  auto& inside = arena_->control(me_).inside;
  inside.store(1);
  if (arena_->header().closed.load() == 0) return true;
  inside.store(0);
  return false;
}

void DirectMemory::leave() { arena_->control(me_).inside.store(0, std::memory_order_release); }

void DirectMemory::tell_step() {
  auto& steps = arena_->control(me_).steps_inside;
  steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// `is_put`: from `mine`, else into it.
void DirectMemory::attach(int local, std::uint64_t address, std::byte* mine, std::size_t bytes,
                          bool is_put) const {
  while (bytes != 0) {
    const iovec here{mine, bytes};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the peer's address
    const iovec there{reinterpret_cast<void*>(address), bytes};
    const ssize_t moved = is_put ? ::process_vm_writev(process(local), &here, 1, &there, 1, 0)
                                 : ::process_vm_readv(process(local), &here, 1, &there, 1, 0);
    if (moved <= 0)
      throw attach_error(errno, {.me = ranks_[static_cast<std::size_t>(me_)],
                                 .peer = ranks_[static_cast<std::size_t>(local)],
                                 .process = process(local),
                                 .mine = mine,
                                 .theirs = there.iov_base,
                                 .is_put = is_put});
    mine += moved;
    address += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
}

}  // namespace tutti::transport::shm
