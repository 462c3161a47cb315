/// \file
/// GPUDirect RDMA by CUDA: Api's functions of the same names, on the current device.
#pragma once

#include <cstddef>

#include "gpu/api.hpp"

namespace tutti::gpu::cuda {

FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes);
NetworkWrites network_writes();
void flush_network_writes();

}  // namespace tutti::gpu::cuda
