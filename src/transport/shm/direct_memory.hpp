/// \file
/// Memory of other ranks of this host, read and written in place: threads' memory as it is, allocated and
/// registered memory through a second mapping, plain memory of other processes by cross-memory attach
/// (process_vm_readv(2), process_vm_writev(2)).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/fork_guard.hpp"
#include "transport/shm/arena.hpp"

namespace tutti::transport::shm {

/// What a rank tells its peers about a buffer. Sent as bytes.
struct MemoryOffer {
  std::uint64_t address = 0;        ///< in the owner's address space
  std::uint64_t in_region = 0;      ///< offset within the region, when region_bytes != 0
  std::uint64_t region_offset = 0;  ///< of the region in the arena's file
  std::uint64_t region_bytes = 0;   ///< 0: plain memory
  std::uint64_t bytes = 0;          ///< of the buffer; 0: the rank has none
};

/// How a peer's buffer is reached.
enum class Reach : std::uint8_t { mapped, attach, none };

class DirectMemory {
 public:
  /// `pids[i]`: process of local rank i; `ranks[i]`: its number in the group, for errors. `can_attach`: every
  /// rank of this host may read and write every other's memory.
  DirectMemory(std::shared_ptr<Arena> arena, int me, std::vector<pid_t> pids, std::vector<Rank> ranks,
               bool can_attach);
  ~DirectMemory();

  /// A zeroed region of this rank's window. `bytes` > 0.
  std::byte* allocate(std::size_t bytes);
  /// Turns whole pages of private anonymous memory into a region, keeping address and contents.
  void adopt(std::byte* data, std::size_t bytes);
  /// Ends a region made by either; adopted memory becomes private again, though it stays held where there is
  /// no room for a copy.
  void release(std::byte* data) noexcept;

  [[nodiscard]] MemoryOffer offer(const void* data, std::size_t bytes) const;
  /// The same answer on all ranks, whoever made the offer.
  [[nodiscard]] Reach reach(const MemoryOffer& offer) const;
  /// Whether others may still read this process, and it them, by attach, as far as it can tell: not once it
  /// has closed itself to them (PR_SET_DUMPABLE), as the kernel does with a process that changes its user.
  /// Asked before it offers what others would reach so. A system call.
  [[nodiscard]] bool may_still_attach() const;
  /// A pointer for a `mapped` offer; maps the peer's region on first use.
  std::byte* map(int local, const MemoryOffer& offer);
  /// Maps a region, a peer's or an own one, with all its pages, where Linux can (5.14).
  void fault_in(int local, const MemoryOffer& offer);
  /// Reads memory of another process. Throws Error(peer_lost) when it has ended, Error(system).
  void read(int local, std::uint64_t address, std::byte* into, std::size_t bytes) const {
    attach(local, address, into, bytes, false);
  }
  /// Writes it, likewise.
  void write(int local, std::uint64_t address, const std::byte* from, std::size_t bytes) const {
    attach(local, address, const_cast<std::byte*>(from), bytes, true);
  }

  /// Before this rank touches buffers that others offered, and afterwards. False once any rank has closed
  /// them: then they must not be touched, nor left.
  [[nodiscard]] bool enter();
  void leave();
  /// Something has moved in between, which those who wait for it cannot see.
  void tell_step();

  [[nodiscard]] pid_t process(int local) const { return pids_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] bool same_process() const { return same_process_; }  ///< all ranks of this host
  [[nodiscard]] bool can_attach() const { return can_attach_; }
  [[nodiscard]] std::uint64_t held() const { return held_; }  ///< bytes of this rank's regions

 private:
  void attach(int local, std::uint64_t address, std::byte* mine, std::size_t bytes, bool is_put) const;
  using Pieces = std::map<std::uint64_t, std::uint64_t>;  ///< offset in the file -> bytes
  struct Region {
    std::byte* data = nullptr;
    std::size_t bytes = 0;  ///< whole pages
    bool adopted = false;
    Pieces::node_type piece;  ///< where it is; kept, so that giving it back takes no memory
  };
  struct Mapping {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  [[nodiscard]] bool reach_as_threads(int local) const {
    return pids_[static_cast<std::size_t>(local)] == pids_[static_cast<std::size_t>(me_)];
  }
  /// Of a peer's regions, those that lay there before: they are no more when another one does.
  void unmap(int local, std::uint64_t offset, std::uint64_t bytes) noexcept;
  Pieces::node_type reserve(std::size_t bytes);
  /// `place`: maps `bytes` at an offset of the file, and returns where they are now.
  template <class Place>
  std::byte* add_region(std::size_t bytes, bool adopted, Place place);
  void give_back(Pieces::node_type piece) noexcept;
  void keep_to_itself(std::byte* data, std::size_t bytes, std::uint64_t offset) noexcept;

  std::shared_ptr<Arena> arena_;
  int me_;
  std::vector<pid_t> pids_;
  std::vector<Rank> ranks_;
  bool can_attach_;
  bool same_process_;
  int dumpable_;                             ///< PR_GET_DUMPABLE, when attach was tried
  std::map<std::uint64_t, Region> regions_;  ///< by offset in the file
  Pieces free_;                              ///< of this rank's window
  bool empties_ = true;  ///< what it gives back. Sandboxes that cannot leave what was there (gVisor)
  std::map<std::pair<int, std::uint64_t>, Mapping> mappings_;
  std::uint64_t held_ = 0;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace tutti::transport::shm
