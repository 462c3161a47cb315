/// \file
/// The kernels in kernels.cu, as the runtime's launch takes them: their arguments are those of Api's
/// functions.
#pragma once

#include <tutti/types.hpp>

namespace tutti::gpu {

/// (device::Launch), grid {lanes, slices}. `average` is `sum`.
const void* executor_kernel(DataType type, ReduceOp op);
const void* proof_kernel();  ///< (const device::Membership*, device::Proof, std::uint32_t* wrong)
const void* scale_kernel(DataType type);  ///< (device::Scale)

inline constexpr unsigned block_threads = 512;
inline constexpr unsigned scale_blocks = 32;

}  // namespace tutti::gpu
