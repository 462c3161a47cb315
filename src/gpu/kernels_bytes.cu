#include "gpu/executor_kernel.cuh"

TUTTI_KERNELS(tutti::gpu::device::Native<std::int8_t>)
TUTTI_KERNELS(tutti::gpu::device::Native<std::uint8_t>)
TUTTI_KERNELS(tutti::gpu::device::E4M3)
TUTTI_KERNELS(tutti::gpu::device::E5M2)
