#include "topology/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "topology/assemble.hpp"

namespace tutti::topology {

namespace {

// The few parts of NVML's interface that are used, as its documentation gives them (nvml.h of CUDA 12). They
// are stable: NVML adds new versions of its calls beside the old ones.
using Device = void*;
constexpr int success = 0;
constexpr unsigned most_links = 18;

struct PciInfo {  // nvmlPciInfo_t, version 3
  std::array<char, 16> bus_id_legacy{};
  unsigned domain = 0, bus = 0, device = 0, pci_device_id = 0, pci_subsystem_id = 0;
  std::array<char, 32> bus_id{};
};

struct FabricInfo {  // nvmlGpuFabricInfo_t
  std::array<unsigned char, 16> cluster{};
  int status = 0;
  unsigned clique = 0;
  unsigned char state = 0;
};
constexpr unsigned char fabric_completed = 3;

class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL), &close) {}
  explicit operator bool() const { return handle_ != nullptr; }

  /// Calls a function that may be missing, as in older drivers: then it fails.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    constexpr int missing = -1;
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_.get(), name));
    return function == nullptr ? missing : function(arguments...);
  }

 private:
  static void close(void* handle) {
    if (handle != nullptr) ::dlclose(handle);
  }
  std::unique_ptr<void, void (*)(void*)> handle_;
};

std::string text_of(const std::array<char, 32>& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

NvmlLink::Remote remote_kind(const Library& nvml, Device device, unsigned link) {
  int kind = 255;
  if (nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &kind) != success)
    return NvmlLink::Remote::unknown;
  switch (kind) {
    case 0:
      return NvmlLink::Remote::gpu;
    case 1:
      return NvmlLink::Remote::cpu;
    case 2:
      return NvmlLink::Remote::nvswitch;
    default:
      return NvmlLink::Remote::unknown;
  }
}

std::vector<NvmlLink> links_of(const Library& nvml, Device device) {
  std::vector<NvmlLink> links;
  for (unsigned link = 0; link < most_links; ++link) {
    int active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &active) != success || active == 0) continue;
    PciInfo remote;
    const bool told = nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &remote) == success;
    links.push_back({.remote = remote_kind(nvml, device, link),
                     .pci = told ? pci_address(text_of(remote.bus_id)) : std::string{}});
  }
  return links;
}

std::string fabric_of(const Library& nvml, Device device) {
  FabricInfo fabric;
  if (nvml.call("nvmlDeviceGetGpuFabricInfo", device, &fabric) != success || fabric.status != success ||
      fabric.state != fabric_completed || fabric.cluster == decltype(fabric.cluster){})
    return {};
  std::string text;
  for (const unsigned char byte : fabric.cluster) text += fmt::format("{:02x}", byte);
  return fmt::format("{}.{}", text, fabric.clique);
}

NvmlGpu gpu_of(const Library& nvml, Device device) {
  NvmlGpu gpu;
  PciInfo pci;
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == success)
    gpu.pci = pci_address(text_of(pci.bus_id));
  std::array<char, 96> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size())) == success)
    gpu.name.assign(name.data(), ::strnlen(name.data(), name.size()));
  int major = 0, minor = 0;
  if (nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == success)
    gpu.compute_capability = 10 * major + minor;
  gpu.links = links_of(nvml, device);
  gpu.fabric = fabric_of(nvml, device);
  return gpu;
}

}  // namespace

std::optional<std::vector<NvmlGpu>> read_nvml(std::string& why_not, const std::string& library) {
  const Library nvml(library);
  if (!nvml) {
    why_not = library + " is not installed";
    return std::nullopt;
  }
  if (const int code = nvml.call("nvmlInit_v2"); code != success) {
    why_not = fmt::format("nvmlInit_v2 fails with {}: the driver does not run", code);
    return std::nullopt;
  }
  const std::unique_ptr<const Library, void (*)(const Library*)> session(
      &nvml, [](const Library* of) { of->call("nvmlShutdown"); });
  unsigned count = 0;
  if (const int code = nvml.call("nvmlDeviceGetCount_v2", &count); code != success) {
    why_not = fmt::format("nvmlDeviceGetCount_v2 fails with {}", code);
    return std::nullopt;
  }
  std::vector<NvmlGpu> gpus;
  for (unsigned index = 0; index < count && index < most_nodes; ++index) {
    Device device = nullptr;
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device) == success)
      gpus.push_back(gpu_of(nvml, device));
  }
  return gpus;
}

}  // namespace tutti::topology
