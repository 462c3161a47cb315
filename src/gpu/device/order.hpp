/// \file
/// The accesses by which ranks talk to each other, each with its memory order and scope in its name. On a GPU
/// they are PTX instructions of system scope (PTX ISA, "Memory Consistency Model"); for host threads they are
/// the same orders of std::atomic_ref, which ThreadSanitizer understands.
#pragma once

#include <cstdint>

#include "gpu/device/target.hpp"

#ifndef __CUDACC__
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#endif

namespace tutti::gpu::device {

/// Four bytes of data and the flag that says which message they belong to, in one word that is written and
/// read at once: data needs no fence and no further signal (the idea is NCCL's LL protocol).
struct Packet {
  std::uint32_t data = 0;
  std::uint32_t flag = 0;
};
/// What one thread moves: two packets, 16 bytes. Each packet is atomic, the pair is not.
struct alignas(16) PacketPair {
  Packet low, high;
};
static_assert(sizeof(Packet) == 8);
static_assert(sizeof(PacketPair) == 16, "one store");

#ifdef __CUDACC__

TUTTI_DEVICE std::uint64_t load_acquire_system(const std::uint64_t* at) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
TUTTI_DEVICE void store_release_system(std::uint64_t* at, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
/// Of a word that nothing else depends on.
TUTTI_DEVICE void store_relaxed_system(std::uint64_t* at, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
/// Behind a barrier, which all threads enter only with what they have read: loads that have returned cannot
/// see later stores, so no fence is needed. NCCL gives back what its LL protocol has read in the same way.
TUTTI_DEVICE void store_after_reads_system(std::uint64_t* at, std::uint64_t value) {
  store_relaxed_system(at, value);
}
TUTTI_DEVICE std::uint32_t load_relaxed_system(const std::uint32_t* at) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
TUTTI_DEVICE void store_release_system(std::uint32_t* at, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
/// True for the one thread, of all blocks, that finds 0 and writes 1.
TUTTI_DEVICE bool claim_relaxed_device(std::uint32_t* at) { return atomicCAS(at, 0U, 1U) == 0U; }

TUTTI_DEVICE PacketPair load_packets_relaxed_system(const PacketPair* at) {
  std::uint64_t low, high;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(at) : "memory");
  return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32)},
          {static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
}
TUTTI_DEVICE void store_packets_relaxed_system(PacketPair* at, PacketPair pair) {
  const std::uint64_t low = static_cast<std::uint64_t>(pair.low.flag) << 32 | pair.low.data;
  const std::uint64_t high = static_cast<std::uint64_t>(pair.high.flag) << 32 | pair.high.data;
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(low), "l"(high) : "memory");
}

/// A clock that all blocks share; its resolution is up to a microsecond.
TUTTI_DEVICE std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
/// Between two polls of a word, of which there have been so many.
TUTTI_DEVICE void pause(std::uint32_t) {}
/// Polls between two looks at the clock and for an abort, which lies in host memory.
inline constexpr std::uint32_t polls_a_look = 4096;

#else

TUTTI_DEVICE std::uint64_t load_acquire_system(const std::uint64_t* at) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(at)).load(std::memory_order_acquire);
}
TUTTI_DEVICE void store_release_system(std::uint64_t* at, std::uint64_t value) {
  std::atomic_ref(*at).store(value, std::memory_order_release);
}
TUTTI_DEVICE void store_relaxed_system(std::uint64_t* at, std::uint64_t value) {
  std::atomic_ref(*at).store(value, std::memory_order_relaxed);
}
TUTTI_DEVICE void store_after_reads_system(std::uint64_t* at, std::uint64_t value) {
  store_release_system(at, value);
}
TUTTI_DEVICE std::uint32_t load_relaxed_system(const std::uint32_t* at) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(at)).load(std::memory_order_relaxed);
}
TUTTI_DEVICE void store_release_system(std::uint32_t* at, std::uint32_t value) {
  std::atomic_ref(*at).store(value, std::memory_order_release);
}
TUTTI_DEVICE bool claim_relaxed_device(std::uint32_t* at) {
  std::uint32_t free = 0;
  return std::atomic_ref(*at).compare_exchange_strong(free, 1, std::memory_order_relaxed);
}

namespace detail {
TUTTI_DEVICE Packet load_packet(const Packet* at) {
  const std::uint64_t word = std::atomic_ref(*reinterpret_cast<std::uint64_t*>(const_cast<Packet*>(at)))
                                 .load(std::memory_order_relaxed);
  return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
}
TUTTI_DEVICE void store_packet(Packet* at, Packet packet) {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at))
      .store(static_cast<std::uint64_t>(packet.flag) << 32 | packet.data, std::memory_order_relaxed);
}
}  // namespace detail

TUTTI_DEVICE PacketPair load_packets_relaxed_system(const PacketPair* at) {
  return {detail::load_packet(&at->low), detail::load_packet(&at->high)};
}
TUTTI_DEVICE void store_packets_relaxed_system(PacketPair* at, PacketPair pair) {
  detail::store_packet(&at->low, pair.low);
  detail::store_packet(&at->high, pair.high);
}

TUTTI_DEVICE std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
/// There are more threads than processors: who has to wait for long leaves them to the others.
TUTTI_DEVICE void pause(std::uint32_t polls) {
  constexpr std::uint32_t soon = 8;
  if (polls < soon)
    ::sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}
inline constexpr std::uint32_t polls_a_look = 16;

#endif

}  // namespace tutti::gpu::device
