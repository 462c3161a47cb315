/// \file
/// Bytes that a thread moves at once, and elements in them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// `kBytes` bytes in registers, which are words: of an array of bytes nvcc takes every byte apart.
template <int kBytes>
struct alignas(kBytes) Chunk {
  using Word = std::conditional_t<kBytes >= 4, std::uint32_t,
                                  std::conditional_t<kBytes == 2, std::uint16_t, std::uint8_t>>;
  Word words[kBytes / sizeof(Word)];
};
static_assert(sizeof(Chunk<16>) == 16 && alignof(Chunk<16>) == 16, "one vector instruction");

/// Element `i`, a constant once loops are unrolled.
template <class Stored, int kBytes>
TUTTI_DEVICE Stored element(const Chunk<kBytes>& chunk, int i) {
  using Word = typename Chunk<kBytes>::Word;
  constexpr int size = sizeof(Stored), word = sizeof(Word);
  if constexpr (size == word) {
    return std::bit_cast<Stored>(chunk.words[i]);
  } else if constexpr (size > word) {
    static_assert(size == 8 && word == 4);
    return std::bit_cast<Stored>(static_cast<std::uint64_t>(chunk.words[2 * i + 1]) << 32 |
                                 chunk.words[2 * i]);
  } else {
    using Code = std::conditional_t<size == 2, std::uint16_t, std::uint8_t>;
    return std::bit_cast<Stored>(static_cast<Code>(chunk.words[i * size / word] >> (8 * (i * size % word))));
  }
}
template <class Stored, int kBytes>
TUTTI_DEVICE void set_element(Chunk<kBytes>& chunk, int i, Stored stored) {
  using Word = typename Chunk<kBytes>::Word;
  constexpr int size = sizeof(Stored), word = sizeof(Word);
  if constexpr (size == word) {
    chunk.words[i] = std::bit_cast<Word>(stored);
  } else if constexpr (size > word) {
    static_assert(size == 8 && word == 4);
    const auto both = std::bit_cast<std::uint64_t>(stored);
    chunk.words[2 * i] = static_cast<Word>(both);
    chunk.words[2 * i + 1] = static_cast<Word>(both >> 32);
  } else {
    using Code = std::conditional_t<size == 2, std::uint16_t, std::uint8_t>;
    const int shift = 8 * (i * size % word);
    Word& at = chunk.words[i * size / word];
    at = (at & ~(static_cast<Word>(static_cast<Code>(-1)) << shift)) |
         static_cast<Word>(std::bit_cast<Code>(stored)) << shift;
  }
}

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
    if (static_cast<std::size_t>(i) < valid) set_element(chunk, i, static_cast<std::uint8_t>(from[i]));
  return chunk;
}
template <int kBytes>
TUTTI_DEVICE void store_some(std::byte* to, const Chunk<kBytes>& chunk, std::size_t valid) {
  if (valid >= kBytes && reinterpret_cast<std::uintptr_t>(to) % kBytes == 0)
    return store_chunk<kBytes>(to, chunk);
  for (int i = 0; i < kBytes; ++i)
    if (static_cast<std::size_t>(i) < valid) to[i] = static_cast<std::byte>(element<std::uint8_t>(chunk, i));
}

}  // namespace tutti::gpu::device
