/// \file
/// Device memory of every rank, opened by those of the others that can: each in the best way that it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/api.hpp"
#include "gpu/resources.hpp"
#include "gpu/setting.hpp"

namespace tutti::gpu {

/// Where another rank is; the same as seen from both.
enum class Nearness : std::uint8_t {
  process,  ///< in this process: pointers mean the same
  host,     ///< in another one on this host
  domain,   ///< perhaps in this NVLink domain
  apart,    ///< its memory is not to be opened
};

/// A rank's memory, as this rank's device reaches it.
struct PeerMemory {
  std::byte* data = nullptr;    ///< nullptr: it does not
  std::byte* theirs = nullptr;  ///< where the owner has it
  std::size_t bytes = 0;
  std::optional<Sharing> how;  ///< nothing: by its address
  std::string why_not;         ///< what was tried, and failed
};

class SharedMemory {
 public:
  SharedMemory() = default;
  /// Collective. `peers`: by rank. `mine`: device memory, a part of one allocation; sizes may differ. What
  /// cannot be exported or opened is no error. Throws Error(timeout, system).
  SharedMemory(const std::shared_ptr<Api>& api, const Setting& setting, std::span<const Nearness> peers,
               std::span<std::byte> mine);
  [[nodiscard]] const PeerMemory& of(Rank rank) const { return all_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<PeerMemory> all_;
  std::vector<OpenMemory> open_;
};

}  // namespace tutti::gpu
