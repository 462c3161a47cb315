/// \file
/// GPUs, their driver, and whether RDMA devices can reach their memory. Looks at files only; needs no CUDA.
#pragma once

#include <string>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

struct GpuFacts {
  int nvidia = 0, amd = 0;    ///< on the PCI bus
  std::string driver{};       ///< of NVIDIA: first line of /proc/driver/nvidia/version
  int nodes = 0;              ///< /dev/nvidia0, ...
  bool amd_node = false;      ///< /dev/kfd
  std::string peer_memory{};  ///< kernel module that lets RDMA devices reach NVIDIA memory; empty: none
  bool rdma = false;          ///< there is an RDMA device
  bool dma_buf = false;  ///< the kernel (5.12 and later) and the driver (open kernel module) share dma-bufs
};

GpuFacts read_gpu(const Root& root);
Findings examine(const GpuFacts& facts);

}  // namespace tutti::doctor
