// A library with NVML's calls for two GPUs that do not exist: joined by two NVLinks, with one each to a
// switch and one whose end is not told. A third one has gone (the call for its handle fails).
#include <cstdio>
#include <cstring>

namespace {

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct FabricInfo {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};

constexpr int ok = 0, not_found = 6;
int devices[2];
bool running = false;

unsigned index_of(void* device) { return static_cast<int*>(device) == devices ? 0 : 1; }

void write_bus_id(PciInfo* info, unsigned gpu) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 0x10 * (gpu + 1));
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  running = true;
  return ok;
}
int nvmlShutdown() {
  running = false;
  return ok;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return running ? ok : not_found;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 2) return not_found;
  *device = &devices[index];
  return ok;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  write_bus_id(info, index_of(device));
  return ok;
}
int nvmlDeviceGetName(void* /*device*/, char* name, unsigned length) {
  std::snprintf(name, length, "NVIDIA Nothing");
  return ok;
}
int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return ok;
}
int nvmlDeviceGetNvLinkState(void* /*device*/, unsigned link, int* active) {
  *active = link < 4 ? 1 : 0;
  return link < 6 ? ok : not_found;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  if (link == 3) return not_found;
  if (link == 2)
    std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:C1:00.0");
  else
    write_bus_id(info, 1 - index_of(device));
  return ok;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* /*device*/, unsigned link, int* type) {
  *type = link < 2 ? 0 : link == 2 ? 2 : 255;
  return ok;
}
int nvmlDeviceGetGpuFabricInfo(void* /*device*/, FabricInfo* info) {
  std::memset(info, 0, sizeof *info);
  info->cluster[0] = 0xab;
  info->clique = 7;
  info->state = 3;
  return ok;
}
}
