/// \file
/// The kernels that run programs, two for every format (device/operations.hpp), and those that scale. Each
/// format is instantiated in one file.
#pragma once

#include "gpu/device/executor.hpp"
#include "gpu/device/scale.hpp"
#include "gpu/kernels.hpp"

namespace tutti::gpu {

/// The block that a GPU thread is in.
struct GridBlock {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  /// A constant, so that the addresses of a thread differ by constants.
  __device__ static constexpr int threads() { return static_cast<int>(block_threads); }
  __device__ static void barrier() { __syncthreads(); }
  __device__ static bool any(bool mine) { return __syncthreads_or(mine ? 1 : 0) != 0; }
};

template <class Format, class Op>
__global__ void __launch_bounds__(block_threads) run_program(const __grid_constant__ device::Launch launch) {
  __shared__ device::Shared shared;
  device::Executor<Format, Op, GridBlock>({}, shared, launch, static_cast<int>(blockIdx.x),
                                          static_cast<int>(blockIdx.y))
      .run();
}

template <class Format>
__global__ void __launch_bounds__(block_threads) run_scale(const __grid_constant__ device::Scale what) {
  device::scale<Format>(GridBlock{}, what, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

template <class Format>
const void* executor_of(ReduceOp op);
template <class Format>
const void* scale_of();

}  // namespace tutti::gpu

/// Defines the kernels of a format.
#define TUTTI_KERNELS(Format)                                                                      \
  template <>                                                                                      \
  const void* tutti::gpu::executor_of<Format>(ReduceOp op) {                                       \
    const void* kernel = nullptr;                                                                  \
    tutti::gpu::device::with_operation(                                                            \
        op, [&]<class Op>() { kernel = reinterpret_cast<const void*>(run_program<Format, Op>); }); \
    return kernel;                                                                                 \
  }                                                                                                \
  template <>                                                                                      \
  const void* tutti::gpu::scale_of<Format>() {                                                     \
    return reinterpret_cast<const void*>(run_scale<Format>);                                       \
  }
