/// \file
/// Which of the caller's buffers come again. Those that peers reach by attach are put into huge pages: the
/// kernel looks up each page that it copies for another process, which takes several times as long as to copy
/// 4 KiB of it (docs/experiments.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Counts uses of the buffers that were used last. Not thread safe.
class ReusedBuffers {
 public:
  /// A call uses [data, data + bytes). Returns what of it to prepare in this call: nothing before the
  /// `uses`-th one, then a part in each until all were, and all anew 1024 calls later, as the memory may have
  /// been freed since and be another one at the same address. A longer use begins anew. `most`: bytes that
  /// the call may still take, where it uses several.
  std::span<const std::byte> due(const void* data, std::size_t bytes, std::uint32_t uses,
                                 std::size_t most = most_a_call);

  /// What shorter ones cost to put into huge pages takes long to come in.
  static constexpr std::size_t least = std::size_t{256} << 10U;
  /// Putting them there takes some 30 ms.
  static constexpr std::size_t most_a_call = std::size_t{64} << 20U;
  static constexpr std::uint32_t again = 1024;

 private:
  struct Buffer {
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t prepared = 0;  ///< bytes
    std::uint32_t uses = 0;    ///< until they suffice; then those since all was prepared
  };
  /// By address. Of two that have the same place and take turns, none is ever due.
  std::array<Buffer, 256> buffers_;
};

}  // namespace tutti
