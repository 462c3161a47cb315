#include "topology/rates.hpp"

#include <charconv>
#include <string>

namespace tutti::topology {

namespace {

int number(const Node& node, const char* key) {
  const std::string text = detail(node, key);
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double intel_bandwidth(int model) {
  if (model >= 0xcf || (model >= 0xad && model <= 0xaf))
    return 40;                    // Emerald Rapids and later, Granite Rapids, Sierra Forest
  if (model >= 0x8f) return 22;   // Sapphire Rapids
  return model >= 0x55 ? 10 : 6;  // Skylake, else Broadwell and older
}

/// NCCL writes the family in its raw form, 0xf + (extended << 4), where the kernel adds the two.
double amd_bandwidth(int family) {
  if (family == 0x1a || family == 0xbf) return 32;    // Zen 5
  return family == 0x19 || family == 0xaf ? 24 : 16;  // Zen 3 and 4, else older
}

}  // namespace

double pcie_bandwidth(double gigatransfers, int lanes) {
  // Three quarters of what is left of 128b/130b; the first two generations send 10 bits for 8.
  const double gigabits = gigatransfers * (gigatransfers < 8 ? 0.8 : 1.0) * 0.75;
  return gigabits * lanes / 8;
}

double nvlink_bandwidth(int compute_capability) {
  if (compute_capability >= 100) return 40.1;
  if (compute_capability >= 90) return 20.6;
  if (compute_capability == 86) return 12;
  return compute_capability == 0 || compute_capability >= 70 ? 20 : 18;
}

double xgmi_bandwidth(std::string_view architecture) {
  if (architecture.starts_with("gfx")) architecture.remove_prefix(3);
  if (architecture.starts_with("94") || architecture.starts_with("95")) return 48;
  return architecture == "90a" || architecture == "910" ? 36 : 24;
}

double socket_bandwidth(const Node& cpu) {
  const auto arch = detail(cpu, "arch"), vendor = detail(cpu, "vendor");
  if (arch == "ppc64") return 32;
  if (arch == "arm64") return 6;
  if (vendor == "GenuineIntel") return intel_bandwidth(number(cpu, "model"));
  if (vendor == "AuthenticAMD") return amd_bandwidth(number(cpu, "family"));
  return 0;
}

double latency(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
    case LinkKind::xgmi:
    case LinkKind::c2c:
      return 0.3;
    case LinkKind::pcie:
      return 0.5;
    case LinkKind::socket:
      return 0.3;
    case LinkKind::wire:
      return 0.35;
    case LinkKind::memory:
      return 0.1;
  }
  return 0;
}

}  // namespace tutti::topology
