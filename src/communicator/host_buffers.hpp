/// \file
/// Whether the processors reach a buffer: memory of a CUDA device is found where the process has the driver
/// loaded, also in a build without CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tutti/call.hpp>

#include "communicator/check.hpp"

namespace tutti {

/// Whose memory it is, as far as the CUDA driver of this process knows.
enum class Owner : std::uint8_t {
  host,    ///< CUDA knows nothing of it
  pinned,  ///< page-locked or managed by CUDA: processors reach it, but perhaps not from another process
  device,
};

/// Asks the driver, if there is one; a pointer costs it about 100 ns. Never starts CUDA. Thread safe.
Owner owner_of(const void* pointer) noexcept;

/// Whether the kernel lets processes read this memory by cross-memory attach, where it permits that at all:
/// not memory of devices, nor secret memory (memfd_secret(2)). Takes a system call.
bool is_lent(const void* pointer, std::size_t bytes) noexcept;

/// What is known of the buffers of one communicator's calls: each is looked at once. One thread at a time.
class HostBuffers {
 public:
  /// Looks for the driver, which takes dozens of system calls where there is none; the first call would.
  HostBuffers() { (void)owner_of(this); }
  /// Throws Error(invalid_argument) for memory of a device.
  void require_reachable(const Call& call, const Sizes& sizes) {
    if (sizes.in_bytes != 0 && owner(inputs_, call.in) == Owner::device) refuse(call, "input");
    if (sizes.out_bytes != 0 && owner(outputs_, call.out) == Owner::device) refuse(call, "output");
  }
  /// Not CUDA's, nor what no process may read by cross-memory attach; of short ones the latter is not asked,
  /// since nobody would.
  bool plain(const Call& call, const Sizes& sizes) {
    return plain(inputs_, call.in, sizes.in_bytes) && plain(outputs_, call.out, sizes.out_bytes);
  }

 private:
  struct Known {
    const void* pointer = nullptr;
    Owner owner = Owner::host;
    bool asked = false, lent = true;  ///< whether processes may read it was asked, and what came out
  };
  using Table = std::array<Known, 1 << 6>;
  static constexpr std::size_t worth_asking = 4096;
  static Known& known(Table& table, const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    Known& known = table[address * 0x9E3779B97F4A7C15ULL >> 58];
    if (known.pointer != pointer) [[unlikely]]
      known = {.pointer = pointer, .owner = owner_of(pointer)};
    return known;
  }
  static Owner owner(Table& table, const void* pointer) { return known(table, pointer).owner; }
  static bool plain(Table& table, const void* pointer, std::size_t bytes) {
    if (bytes == 0 || pointer == nullptr) return true;  // none, or a call that is only spoken of
    Known& memory = known(table, pointer);
    if (bytes >= worth_asking && !memory.asked) [[unlikely]] {
      memory.lent = is_lent(pointer, bytes);
      memory.asked = true;
    }
    return memory.owner == Owner::host && (bytes < worth_asking || memory.lent);
  }
  [[noreturn]] static void refuse(const Call& call, const char* which);

  Table inputs_, outputs_;  ///< two, so that the buffers of one call never take each other's place
};

}  // namespace tutti
