/// \file
/// The kernels in kernels.cu, as the runtime's launch takes them: their arguments are those of Api's
/// functions.
#pragma once

namespace tutti::gpu {

const void* executor_kernel();  ///< (device::Launch), grid {lanes, slices}
const void* proof_kernel();     ///< (const device::Membership*, device::Proof, std::uint32_t* wrong)
const void* scale_kernel();     ///< (device::Scale)

inline constexpr unsigned block_threads = 512;
inline constexpr unsigned scale_blocks = 32;

}  // namespace tutti::gpu
