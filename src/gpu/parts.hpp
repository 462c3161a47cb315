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

inline std::vector<std::byte> pack(Parts& parts) {
  auto& header = parts.header;
  for (device::Part& part : parts.parts) part.first_iteration %= header.slices;
  header.lanes = static_cast<std::uint32_t>(parts.lanes.size());

  std::size_t end = sizeof header;
  const auto place = [&end]<class T>(const std::vector<T>& array) {
    const std::size_t at = (end + alignof(T) - 1) / alignof(T) * alignof(T);
    end = at + array.size() * sizeof(T);
    return static_cast<std::uint32_t>(at);
  };
  header.lanes_at = place(parts.lanes);
  header.parts_at = place(parts.parts);
  header.instructions_at = place(parts.instructions);
  header.operands_at = place(parts.operands);

  std::vector<std::byte> flat(end);
  const auto copy = [&flat]<class T>(std::size_t at, const std::vector<T>& array) {
    if (!array.empty()) std::memcpy(flat.data() + at, array.data(), array.size() * sizeof(T));
  };
  std::memcpy(flat.data(), &header, sizeof header);
  copy(header.lanes_at, parts.lanes);
  copy(header.parts_at, parts.parts);
  copy(header.instructions_at, parts.instructions);
  copy(header.operands_at, parts.operands);
  return flat;
}

}  // namespace tutti::gpu
