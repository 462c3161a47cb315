#include "gpu/executor_kernel.cuh"

TUTTI_KERNELS(tutti::gpu::device::Float16)
TUTTI_KERNELS(tutti::gpu::device::BFloat16)
