/// \file
/// execution::Program as a block reads it: one piece of memory without pointers, the same bytes on the host
/// and on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tutti/types.hpp>

#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// Where an operand is.
enum class Place : std::uint8_t { input, output, scratch, peer_input, peer_output, message, buffer };

struct Operand {
  Place place = Place::input;
  std::uint8_t channel = 0;  ///< of messages
  std::int32_t rank = -1;    ///< owner of a peer's memory, other end of a message, or number of a buffer
  std::uint64_t offset = 0;  ///< bytes, in iteration 0
  std::uint64_t segment_stride = 0;  ///< bytes; 0: segments follow each other
};

/// execution::Instruction; its kinds are all one here.
struct Instruction {
  std::uint64_t bytes = 0;
  std::uint32_t first_source = 0, first_sink = 0;
  std::uint16_t sources = 0, sinks = 0;
  std::uint32_t segments = 1;
  std::uint32_t salt = 0;
  bool completes = false, whole = false;
  bool normalizes = false;  ///< writes the norm of its one source to its one sink (rms_norm.hpp)
};

/// Instructions run `iterations` times. Iteration j is the work of slice (first_iteration + j) % slices;
/// `first_iteration` is less than `slices`.
struct Part {
  std::uint64_t iterations = 0, first_iteration = 0;
  std::uint32_t first_instruction = 0, instructions = 0;
};

/// Of messages whose size is part of what both ends must agree on.
TUTTI_DEVICE std::uint32_t salt_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + 1) * 0x9E3779B97F4A7C15ULL >> 32);
}

struct Lane {
  std::uint32_t first_part = 0, parts = 0;
};

/// The header; the arrays lie behind it, at these offsets in bytes from its start.
struct Program {
  std::uint64_t stride = 0;         ///< bytes that offsets advance an iteration
  std::uint64_t scratch_bytes = 0;  ///< a slice
  std::int64_t divisor = 1;
  std::uint32_t lanes = 0, slices = 1;
  std::uint32_t lanes_at = 0, parts_at = 0, instructions_at = 0, operands_at = 0;
  std::uint32_t packet_limit = 0;  ///< payloads of up to so many bytes travel in packets
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool one_sided = false;  ///< works on the peers' buffers, and sends nothing but tokens
  /// How long instructions are, and where in the buffers, is in the launch's Counts: the rank of an operand
  /// in input or output is that of the block.
  bool counted = false;
  bool collective = true;  ///< all ranks run it

  [[nodiscard]] TUTTI_DEVICE const Lane& lane(std::uint32_t i) const { return array<Lane>(lanes_at)[i]; }
  [[nodiscard]] TUTTI_DEVICE const Part& part(std::uint32_t i) const { return array<Part>(parts_at)[i]; }
  [[nodiscard]] TUTTI_DEVICE const Instruction& instruction(std::uint32_t i) const {
    return array<Instruction>(instructions_at)[i];
  }
  [[nodiscard]] TUTTI_DEVICE const Operand& operand(std::uint32_t i) const {
    return array<Operand>(operands_at)[i];
  }

 private:
  template <class T>
  [[nodiscard]] TUTTI_DEVICE const T* array(std::uint32_t at) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(this) + at);
  }
};

// g++ lays out what nvcc reads.
static_assert(sizeof(Operand) == 24 && offsetof(Operand, rank) == 4 && offsetof(Operand, offset) == 8);
static_assert(sizeof(Instruction) == 32 && offsetof(Instruction, segments) == 20 &&
              offsetof(Instruction, completes) == 28);
static_assert(sizeof(Part) == 24 && sizeof(Lane) == 8);
static_assert(sizeof(Program) == 64 && offsetof(Program, lanes_at) == 32 && offsetof(Program, type) == 52 &&
              offsetof(Program, collective) == 56);

}  // namespace tutti::gpu::device
