// The entry points of device code.
#include "gpu/device/executor.hpp"
#include "gpu/device/proof.hpp"
#include "gpu/device/scale.hpp"
#include "gpu/kernels.hpp"

namespace tutti::gpu {
namespace {

/// The block that a GPU thread is in.
struct GridBlock {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static void barrier() { __syncthreads(); }
  __device__ static bool any(bool mine) { return __syncthreads_or(mine ? 1 : 0) != 0; }
};

__global__ void __launch_bounds__(block_threads) run_program(const __grid_constant__ device::Launch launch) {
  __shared__ device::Shared shared;
  device::Executor<GridBlock>({}, shared, launch, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y)).run();
}

__global__ void __launch_bounds__(block_threads)
    run_proof(const device::Membership* group, device::Proof phase, std::uint32_t* wrong) {
  device::prove(GridBlock{}, *group, phase, wrong);
}

__global__ void __launch_bounds__(block_threads) run_scale(const __grid_constant__ device::Scale what) {
  device::scale(GridBlock{}, what, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

}  // namespace

const void* executor_kernel() { return reinterpret_cast<const void*>(run_program); }
const void* proof_kernel() { return reinterpret_cast<const void*>(run_proof); }
const void* scale_kernel() { return reinterpret_cast<const void*>(run_scale); }

}  // namespace tutti::gpu
