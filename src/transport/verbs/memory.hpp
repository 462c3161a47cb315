/// \file
/// Memory that devices may touch. An address without a Region cannot be posted.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

/// An address as work requests and peers have it.
inline std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// A range registered on every rail. Shared by all who send from it: it is deregistered when the last one is
/// done, so never under traffic.
class Region {
 public:
  Region(const std::byte* begin, std::size_t bytes, std::vector<MemoryRegion> handles)
      : begin_(begin), bytes_(bytes), handles_(std::move(handles)) {}
  [[nodiscard]] const std::byte* begin() const { return begin_; }
  [[nodiscard]] std::uint32_t local_key(std::size_t rail) const { return handles_[rail]->lkey; }
  [[nodiscard]] std::uint32_t remote_key(std::size_t rail) const { return handles_[rail]->rkey; }
  [[nodiscard]] bool holds(const std::byte* data, std::size_t bytes) const {
    return data >= begin_ && data + bytes <= begin_ + bytes_;
  }

 private:
  const std::byte* begin_;
  std::size_t bytes_;
  std::vector<MemoryRegion> handles_;  ///< by rail
};

/// Who may do what with a Region, besides the local device reading it.
enum class Access : std::uint8_t {
  local_read,    ///< nobody else
  local_write,   ///< the local device writes what it receives
  remote_write,  ///< peers write
  window,        ///< peers write and read, and the local device writes what it reads from them
};

/// The protection domains of all rails, as one place to register with.
using Domains = std::vector<ibv_pd*>;
/// Throws Error(system): names bytes, and the limit on locked memory, or of a control group, where that is
/// it.
std::shared_ptr<const Region> register_region(Verbs& verbs, const Domains& domains, const std::byte* begin,
                                              std::size_t bytes, Access access);

/// Registered pages of our own.
class Block {
 public:
  Block(Verbs& verbs, const Domains& domains, std::size_t bytes, Access access);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const std::shared_ptr<const Region>& region() const { return region_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::uint64_t generation_ = fork_generation();
  std::shared_ptr<const Region> region_;
};

/// The caller's memory that has been registered: whole pages, a region for each range that was asked for.
/// Ranges that touch stay apart: devices send from the pages that a range had when it was registered, and
/// memory that is freed and mapped anew has others. Thread safe.
class MemoryCache {
 public:
  /// Keeps a range registered while it lives. May outlive the cache.
  class Lease;

  MemoryCache(Verbs& verbs, Domains domains);
  ~MemoryCache();
  /// Throws Error(system).
  std::shared_ptr<Lease> acquire(const std::byte* data, std::size_t bytes);
  /// A region with a lease that holds all of the range; nullptr when there is none, as for a range across
  /// two.
  [[nodiscard]] std::shared_ptr<const Region> find(const std::byte* data, std::size_t bytes) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::transport::verbs
