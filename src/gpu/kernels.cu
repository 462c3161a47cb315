// The entry points of device code but for those of programs, which are in files of their own.
#include "gpu/device/proof.hpp"
#include "gpu/executor_kernel.cuh"
#include "gpu/kernels.hpp"

namespace tutti::gpu {
namespace {

__global__ void __launch_bounds__(block_threads)
    run_proof(const device::Membership* group, device::Proof phase, std::uint32_t* wrong) {
  device::prove(GridBlock{}, *group, phase, wrong);
}

}  // namespace

const void* proof_kernel() { return reinterpret_cast<const void*>(run_proof); }

const void* executor_kernel(DataType type, ReduceOp op) {
  const void* kernel = nullptr;
  device::with_format(type, [&]<class Format>() { kernel = executor_of<Format>(op); });
  return kernel;
}
const void* scale_kernel(DataType type) {
  const void* kernel = nullptr;
  device::with_format(type, [&]<class Format>() { kernel = scale_of<Format>(); });
  return kernel;
}

}  // namespace tutti::gpu
