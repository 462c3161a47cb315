/// \file
/// How two ranks talk whose devices do not reach each other: through page-locked host memory. A mailbox has
/// one writer, the device of one rank, and is read for one other rank: by its device where both share the
/// memory, else by a thread that carries what is in it over the network into a mailbox there (proxy.hpp).
/// Its slots are right behind it, or elsewhere: in device memory, where a network's adapters reach that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/arena.hpp"
#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// Offsets in bytes into a mailbox, which is zero at first.
struct Mailbox {
  std::uint32_t slices = 1;
  std::uint32_t slot_bytes = 0;  ///< the longest message

  [[nodiscard]] TUTTI_DEVICE static std::size_t proof() { return 0; }
  /// 64-bit: Arena::call of the writer.
  [[nodiscard]] TUTTI_DEVICE static std::size_t call(std::uint64_t number) {
    return proof_bytes + 8 * (number % kept_calls);
  }
  /// 64-bit: messages that the writer has taken from the mailbox of the other direction.
  [[nodiscard]] TUTTI_DEVICE std::size_t taken(int channel, int slice) const {
    return words() + 8 * fifo(channel, slice);
  }
  /// 64-bit: number of the message in a slot (from 1) above its tag.
  [[nodiscard]] TUTTI_DEVICE std::size_t flag(int channel, int slice, std::uint64_t message) const {
    return words() + 8 * fifos() + 16 * place(channel, slice, message);
  }
  /// 64-bit: bytes of the message, written before its flag.
  [[nodiscard]] TUTTI_DEVICE std::size_t size(int channel, int slice, std::uint64_t message) const {
    return flag(channel, slice, message) + 8;
  }
  /// Into the slots, wherever they are.
  [[nodiscard]] TUTTI_DEVICE std::size_t slot(int channel, int slice, std::uint64_t message) const {
    return std::size_t{slot_bytes} * place(channel, slice, message);
  }
  /// Of slots that are behind their mailbox. Whole pages: a network's adapter may have them registered.
  [[nodiscard]] TUTTI_DEVICE std::size_t slots() const {
    constexpr std::size_t page = 4096;
    return (words() + 8 * fifos() + std::size_t{16} * credits * fifos() + page - 1) / page * page;
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t bytes_of_slots() const {
    return std::size_t{slot_bytes} * credits * fifos();
  }
  /// With its slots behind it.
  [[nodiscard]] TUTTI_DEVICE std::size_t bytes() const { return slots() + bytes_of_slots(); }

 private:
  [[nodiscard]] TUTTI_DEVICE static std::size_t words() { return proof_bytes + std::size_t{8} * kept_calls; }
  [[nodiscard]] TUTTI_DEVICE std::size_t fifos() const { return std::size_t{channels} * slices; }
  [[nodiscard]] TUTTI_DEVICE std::size_t fifo(int channel, int slice) const {
    return static_cast<std::size_t>(channel) * slices + static_cast<std::size_t>(slice);
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t place(int channel, int slice, std::uint64_t message) const {
    return credits * fifo(channel, slice) + message % credits;
  }
};
static_assert(sizeof(Mailbox) == 8);

}  // namespace tutti::gpu::device
