#include "gpu/executor_kernel.cuh"

TUTTI_KERNELS(tutti::gpu::device::Native<std::int64_t>)
TUTTI_KERNELS(tutti::gpu::device::Native<std::uint64_t>)
TUTTI_KERNELS(tutti::gpu::device::Native<double>)
