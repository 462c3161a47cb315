/// \file
/// Memory that a transport's adapters read and write by themselves: that of a GPU, as a rule, which no
/// processor touches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/file_descriptor.hpp"

namespace tutti::transport {

/// What is to be registered.
struct DeviceMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< both whole pages
  /// A dma-buf of exactly this memory. Throws Error(unsupported, system) where its owner's driver has none.
  std::function<FileDescriptor()> dma_buf;
};

/// By what a peer names memory that it may write. Sent as bytes.
using RegisteredAddress = std::array<std::byte, 64>;

/// Registered while it lives; not longer than its transport.
class RegisteredDeviceMemory {
 public:
  RegisteredDeviceMemory() = default;
  RegisteredDeviceMemory(const RegisteredDeviceMemory&) = delete;
  RegisteredDeviceMemory& operator=(const RegisteredDeviceMemory&) = delete;
  virtual ~RegisteredDeviceMemory() = default;
  [[nodiscard]] virtual RegisteredAddress address() const = 0;
  /// How adapters find its pages: "dma-buf", "nvidia-peermem".
  [[nodiscard]] virtual std::string means() const = 0;
};

/// Bytes that go from registered memory here into registered memory there.
struct Placement {
  const RegisteredDeviceMemory* from = nullptr;
  const std::byte* data = nullptr;  ///< in `from`; unchanged until the peer says that it has them
  std::size_t bytes = 0;
  RegisteredAddress to{};
  std::uint64_t offset = 0;  ///< in bytes, into that
};

}  // namespace tutti::transport
