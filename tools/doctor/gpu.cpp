#include "doctor/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace tutti::doctor {

namespace {

bool kernel_at_least(const Root& root, int major, int minor) {
  int has_major = 0, has_minor = 0;
  char dot = 0;
  std::istringstream(root.text("/proc/sys/kernel/osrelease").value_or("")) >> has_major >> dot >> has_minor;
  return has_major > major || (has_major == major && has_minor >= minor);
}

Finding examine_nvidia(const GpuFacts& facts) {
  Finding finding{.area = "gpu"};
  finding.data = {{"nvidia", facts.nvidia}, {"driver", facts.driver}, {"device_nodes", facts.nodes}};
  const int all = std::max(facts.nvidia, facts.nodes);  // the bus may show none of them
  const std::string found = fmt::format("{} NVIDIA GPU{}", all, all == 1 ? "" : "s");
  if (facts.driver.empty()) {
    finding.level = Level::warning;
    finding.what = found + " and no driver for it";
    finding.remedy = "install the driver (apt install nvidia-open, or nvidia-driver), then modprobe nvidia";
  } else if (facts.nodes == 0) {
    finding.level = Level::warning;
    finding.what = found + " that this process cannot see: there is no /dev/nvidia0";
    finding.remedy = "nvidia-modprobe -c 0 on the host; in containers --gpus all";
  } else {
    finding.what = fmt::format("{} of {} visible; {}", facts.nodes, found, facts.driver);
  }
  return finding;
}

Finding examine_peer_memory(const GpuFacts& facts) {
  Finding finding{.area = "gpu"};
  finding.data = {{"peer_memory", facts.peer_memory}, {"dma_buf", facts.dma_buf}, {"rdma", facts.rdma}};
  if (!facts.rdma) {
    finding.level = Level::note;
    finding.what = "no RDMA device that could reach GPU memory";
  } else if (facts.peer_memory.empty() && !facts.dma_buf) {
    finding.level = Level::warning;
    finding.what =
        "RDMA devices cannot reach GPU memory: no nvidia-peermem, no dma-buf; it passes through host memory";
    finding.remedy = "modprobe nvidia-peermem, or the driver's open kernel module on Linux 5.12 or later";
  } else {
    finding.what = fmt::format("RDMA devices can reach GPU memory by {}{}{}", facts.dma_buf ? "dma-buf" : "",
                               facts.dma_buf && !facts.peer_memory.empty() ? " and " : "", facts.peer_memory);
  }
  return finding;
}

Finding examine_amd(const GpuFacts& facts) {
  Finding finding{.area = "gpu", .data = {{"amd", facts.amd}}};
  finding.what = fmt::format("{} AMD GPU{}", facts.amd, facts.amd == 1 ? "" : "s");
  finding.level = Level::note;
  if (facts.amd_node) return finding;
  finding.what += " without /dev/kfd: no compute driver";
  finding.remedy = "modprobe amdgpu; in containers --device=/dev/kfd --device=/dev/dri";
  return finding;
}

}  // namespace

GpuFacts read_gpu(const Root& root) {
  GpuFacts facts{.nvidia = root.gpus(Root::nvidia), .amd = root.gpus(Root::amd)};
  const auto version = root.text("/proc/driver/nvidia/version").value_or("");
  const auto start = version.find_first_not_of(' ', version.starts_with("NVRM version:") ? 13 : 0);
  if (start != std::string::npos) facts.driver = version.substr(start, version.find('\n') - start);
  for (const auto& name : root.names("/dev"))
    if (name.starts_with("nvidia") && name.size() > 6 &&
        std::isdigit(static_cast<unsigned char>(name[6])) != 0)
      ++facts.nodes;
  facts.amd_node = root.exists("/dev/kfd");
  for (const char* module : {"nvidia_peermem", "nv_peer_mem"})
    if (root.exists(std::string("/sys/module/") + module)) facts.peer_memory = module;
  facts.rdma = root.has_rdma();
  facts.dma_buf = version.find("Open Kernel Module") != std::string::npos && kernel_at_least(root, 5, 12);
  return facts;
}

Findings examine(const GpuFacts& facts) {
  // In a virtual machine or a container the bus may show nothing, while the driver works.
  const bool nvidia = facts.nvidia > 0 || facts.nodes > 0;
  Findings findings;
  if (nvidia) findings = {examine_nvidia(facts), examine_peer_memory(facts)};
  if (facts.amd > 0) findings.push_back(examine_amd(facts));
  if (findings.empty())
    findings.push_back(
        {.area = "gpu", .level = Level::note, .what = "no GPU", .data = {{"nvidia", 0}, {"amd", 0}}});
  return findings;
}

}  // namespace tutti::doctor
