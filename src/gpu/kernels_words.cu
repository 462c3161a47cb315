#include "gpu/executor_kernel.cuh"

TUTTI_KERNELS(tutti::gpu::device::Native<std::int32_t>)
TUTTI_KERNELS(tutti::gpu::device::Native<std::uint32_t>)
TUTTI_KERNELS(tutti::gpu::device::Native<float>)
