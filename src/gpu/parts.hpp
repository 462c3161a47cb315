/// \file
/// The parts of a device program, before they are packed into one piece of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/device/program.hpp"

namespace tutti::gpu {

struct Parts {
  device::Program header;
  std::vector<device::Lane> lanes;
  std::vector<device::Part> parts;
  std::vector<device::Instruction> instructions;
  std::vector<device::Operand> operands;
};

/// Fills in where the arrays are.
std::vector<std::byte> pack(Parts& parts);

}  // namespace tutti::gpu
