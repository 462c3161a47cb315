#include <hwloc.h>

#include <memory>
#include <mutex>

#include "base/fork_guard.hpp"
#include "base/system_error.hpp"
#include "topology/hwloc.hpp"

namespace tutti::topology {

std::string hwloc_xml_of_this_machine() {
  // hwloc loads libxml2 for this, and unloads it: what that holds for other threads just then would be lost.
  static PerProcess<std::mutex> one_at_a_time;
  const std::scoped_lock lock(one_at_a_time.get());
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw_errno("hwloc_topology_init");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw,
                                                                                    &hwloc_topology_destroy);
  // The machine is the same for all its ranks, whatever their cpusets are.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // These would start the GPUs' run-time libraries, which no child of fork survives; NVML is asked elsewhere.
  // And libpciaccess never frees what it read; without it hwloc asks sysfs.
  for (const char* component : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  if (hwloc_topology_load(raw) != 0) throw_errno("hwloc_topology_load");
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(raw, &buffer, &length, 0) != 0)
    throw_errno("hwloc_topology_export_xmlbuffer");
  std::string text(buffer, static_cast<std::size_t>(length));
  hwloc_free_xmlbuffer(raw, buffer);
  while (text.ends_with('\0')) text.pop_back();
  return text;
}

}  // namespace tutti::topology
