/// \file
/// Bytes that a thread moves at once, and elements in them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// `kBytes` bytes in registers.
template <int kBytes>
struct alignas(kBytes) Chunk {
  unsigned char bytes[kBytes];
};
static_assert(sizeof(Chunk<16>) == 16 && alignof(Chunk<16>) == 16, "one vector instruction");

/// `from` is a multiple of `kBytes`, a power of two.
template <int kBytes>
TUTTI_DEVICE Chunk<kBytes> load_chunk(const std::byte* from) {
  Chunk<kBytes> chunk;
  __builtin_memcpy(&chunk, __builtin_assume_aligned(from, kBytes), kBytes);
  return chunk;
}
template <int kBytes>
TUTTI_DEVICE void store_chunk(std::byte* to, const Chunk<kBytes>& chunk) {
  __builtin_memcpy(__builtin_assume_aligned(to, kBytes), &chunk, kBytes);
}

/// The first `valid` bytes (at most `kBytes`), from any address; the others are 0.
template <int kBytes>
TUTTI_DEVICE Chunk<kBytes> load_some(const std::byte* from, std::size_t valid) {
  if (valid >= kBytes && reinterpret_cast<std::uintptr_t>(from) % kBytes == 0)
    return load_chunk<kBytes>(from);
  Chunk<kBytes> chunk{};
  for (int i = 0; i < kBytes; ++i)
    if (static_cast<std::size_t>(i) < valid) chunk.bytes[i] = static_cast<unsigned char>(from[i]);
  return chunk;
}
template <int kBytes>
TUTTI_DEVICE void store_some(std::byte* to, const Chunk<kBytes>& chunk, std::size_t valid) {
  if (valid >= kBytes && reinterpret_cast<std::uintptr_t>(to) % kBytes == 0)
    return store_chunk<kBytes>(to, chunk);
  for (int i = 0; i < kBytes; ++i)
    if (static_cast<std::size_t>(i) < valid) to[i] = static_cast<std::byte>(chunk.bytes[i]);
}

template <class Stored, int kBytes>
TUTTI_DEVICE Stored element(const Chunk<kBytes>& chunk, int i) {
  Stored stored;
  __builtin_memcpy(&stored, chunk.bytes + i * static_cast<int>(sizeof(Stored)), sizeof(Stored));
  return stored;
}
template <class Stored, int kBytes>
TUTTI_DEVICE void set_element(Chunk<kBytes>& chunk, int i, Stored stored) {
  __builtin_memcpy(chunk.bytes + i * static_cast<int>(sizeof(Stored)), &stored, sizeof(Stored));
}

}  // namespace tutti::gpu::device
