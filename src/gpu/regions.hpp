/// \file
/// Memory of all ranks that the devices of all reach, for buffers: allocated for it, or registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tutti/call.hpp>

#include "gpu/connection.hpp"
#include "gpu/resources.hpp"
#include "gpu/shared_memory.hpp"

namespace tutti::gpu {

class Regions {
 public:
  Regions(std::shared_ptr<Api> api, const Setting& setting, Connection& connection)
      : api_(std::move(api)), setting_(setting), connection_(connection) {}

  /// What a user holds: without it, the region is released.
  using Token = std::shared_ptr<const void>;
  struct Allocated {
    Token token;
    std::byte* data = nullptr;
  };
  /// Both are collective, also where sizes differ; nothing of this rank runs on the device. Throw on all
  /// ranks what one met: Error(unsupported) where there are too many, or the memory cannot be shared.
  Allocated allocate(std::size_t bytes);
  Token add(std::span<std::byte> memory);

  /// Whether all ranks reach it, if they do the same: it is in a region. Throws Error(invalid_argument) for
  /// memory that was released or freed since, or is not all in an allocation.
  [[nodiscard]] bool holds(const Call& call, const void* data, std::size_t bytes, const char* which) const;
  /// No kernel of this rank will run any more. Before others free their memory.
  void close_peers();
  /// Memory of `allocate` is not freed: others may still write into it.
  void abandon() noexcept;

 private:
  struct Region {
    std::weak_ptr<const void> token;
    std::span<std::byte> memory;
    std::uint64_t allocation = 0;  ///< as the driver counts
    DeviceMemory owned;            ///< of `allocate`
    SharedMemory peers;
    bool used = false;
  };
  Region& free_one();
  Token share(Region& region, std::span<std::byte> memory);
  void drop_released();
  void publish();

  std::shared_ptr<Api> api_;
  const Setting& setting_;
  Connection& connection_;
  std::vector<std::unique_ptr<Region>> all_;  ///< the same places on all ranks
};

}  // namespace tutti::gpu
