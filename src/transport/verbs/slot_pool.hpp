/// \file
/// Registered room for messages that are sent from copies, shared by all FIFOs of a transport: what is pinned
/// follows what is under way, not the number of peers.
#pragma once

#include <memory>
#include <vector>

#include "transport/verbs/memory.hpp"

namespace tutti::transport::verbs {

class SlotPool;

/// Room for one message, header in front. Given back by its destructor; the pool must live longer.
class Slot {
 public:
  Slot() = default;
  Slot(SlotPool& pool, std::byte* data, const Region* region) : pool_(&pool), data_(data), region_(region) {}
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&& other) noexcept;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() { reset(); }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] std::byte* payload() const;
  [[nodiscard]] const Region& region() const { return *region_; }
  void reset();

 private:
  SlotPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  const Region* region_ = nullptr;
};

class SlotPool {
 public:
  /// `held`: counts the bytes that are registered.
  SlotPool(Verbs& verbs, Domains domains, std::size_t message_bytes, std::uint64_t& held);
  /// Registers more when none is free. Throws Error(system).
  Slot take();

 private:
  friend class Slot;
  struct Free {
    std::byte* data;
    const Region* region;
  };
  void grow();
  Verbs& verbs_;
  Domains domains_;
  std::size_t stride_;
  std::uint64_t& held_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Free> free_;  ///< last given back, first taken: it may still be in a cache
};

/// Bytes from slot to slot.
std::size_t slot_stride(std::size_t message_bytes);

}  // namespace tutti::transport::verbs
