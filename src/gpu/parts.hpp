/// \file
/// A device program while it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/device/program.hpp"

namespace tutti::gpu {

/// The parts of a device program, before they are packed.
struct Parts {
  device::Program header;
  std::vector<device::Lane> lanes;
  std::vector<device::Part> parts;
  std::vector<device::Instruction> instructions;
  std::vector<device::Operand> operands;
};

template <class T>
std::uint32_t append(std::vector<std::byte>& to, const std::vector<T>& array) {
  const std::size_t at = (to.size() + alignof(T) - 1) / alignof(T) * alignof(T);
  to.resize(at + array.size() * sizeof(T));
  if (!array.empty()) std::memcpy(to.data() + at, array.data(), array.size() * sizeof(T));
  return static_cast<std::uint32_t>(at);
}

inline std::vector<std::byte> pack(Parts& parts) {
  std::vector<std::byte> flat(sizeof parts.header);
  for (device::Part& part : parts.parts) part.first_iteration %= parts.header.slices;
  parts.header.lanes = static_cast<std::uint32_t>(parts.lanes.size());
  parts.header.lanes_at = append(flat, parts.lanes);
  parts.header.parts_at = append(flat, parts.parts);
  parts.header.instructions_at = append(flat, parts.instructions);
  parts.header.operands_at = append(flat, parts.operands);
  std::memcpy(flat.data(), &parts.header, sizeof parts.header);
  return flat;
}

}  // namespace tutti::gpu
