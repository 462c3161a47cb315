#include "doctor/pcie.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::doctor {

namespace {

constexpr std::size_t conventional_bytes = 256, extended_bytes = 4096;
/// Source validation and the redirects of requests and completions: what NCCL's guide has switched off.
constexpr std::uint16_t redirect_bits = 0x1 | 0x4 | 0x8;

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) | static_cast<std::uint32_t>(bytes[at + 1]) << 8 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 16 | static_cast<std::uint32_t>(bytes[at + 3]) << 24;
}

bool redirects(const Bridge& bridge) { return (bridge.acs.value_or(0) & redirect_bits) != 0; }

std::string addresses(const std::vector<const Bridge*>& bridges) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(bridges.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + bridges[i]->address;
  return bridges.size() > shown ? text + fmt::format(" and {} more", bridges.size() - shown) : text;
}

Finding examine_redirects(const PcieFacts& facts, const std::vector<const Bridge*>& redirecting) {
  Finding finding{.area = "pcie", .level = facts.gpu ? Level::warning : Level::note};
  finding.what = fmt::format("ACS redirects on {} of {} bridges ({})", redirecting.size(),
                             facts.bridges.size(), addresses(redirecting));
  for (const Bridge* bridge : redirecting) finding.data["redirecting"].push_back(bridge->address);
  if (!facts.gpu) {
    finding.what += "; that matters to GPUs only, and there is none";
    return finding;
  }
  finding.what += ": traffic between devices goes through the processor: slow, and at times it hangs";
  finding.remedy = fmt::format(
      "setpci -s {} ECAP_ACS+0x6.w=0000 for each, at every boot{}; or ACS off in the BIOS. "
      "In a virtual machine leave it on, and use ATS",
      redirecting.front()->address, facts.iommu ? ", with the IOMMU off or iommu=pt" : "");
  return finding;
}

}  // namespace

std::optional<std::uint16_t> find_acs(std::span<const std::uint8_t> configuration) {
  constexpr std::uint32_t acs = 0x000d;
  constexpr int most = (extended_bytes - conventional_bytes) / 8;  // against a list that is a circle
  std::size_t at = conventional_bytes;
  for (int i = 0; i < most && at >= conventional_bytes && at + 8 <= configuration.size(); ++i) {
    const std::uint32_t header = word(configuration, at);
    if (header == 0 || header == 0xffffffff) break;
    if ((header & 0xffff) == acs) return static_cast<std::uint16_t>(word(configuration, at + 4) >> 16);
    at = header >> 20;
  }
  return std::nullopt;
}

PcieFacts read_pcie(const Root& root) {
  PcieFacts facts{.bridges = {}, .gpu = root.has_gpu(), .iommu = !root.names("/sys/class/iommu").empty()};
  const std::string devices = "/sys/bus/pci/devices/";
  for (const auto& address : root.names(devices)) {
    if (!root.text(devices + address + "/class").value_or("").starts_with("0x0604")) continue;
    const std::string file = devices + address + "/config";
    const auto configuration = root.bytes(file, extended_bytes);
    facts.bridges.push_back({.address = address,
                             .readable = configuration.size() >= std::min(root.size(file), extended_bytes),
                             .acs = find_acs(configuration)});
  }
  return facts;
}

Findings examine(const PcieFacts& facts) {
  std::vector<const Bridge*> redirecting, hidden;
  for (const auto& bridge : facts.bridges) {
    if (redirects(bridge)) redirecting.push_back(&bridge);
    if (!bridge.readable) hidden.push_back(&bridge);
  }
  Findings findings;
  if (!redirecting.empty()) findings.push_back(examine_redirects(facts, redirecting));
  if (!hidden.empty())
    findings.push_back(
        {.area = "pcie",
         .level = Level::note,
         .what = fmt::format("only root can see whether {} bridge{} redirect{} (ACS)", hidden.size(),
                             hidden.size() == 1 ? "" : "s", hidden.size() == 1 ? "s" : ""),
         .remedy = facts.gpu ? "sudo tutti-doctor" : ""});
  if (findings.empty())
    findings.push_back({.area = "pcie",
                        .what = facts.bridges.empty()
                                    ? "no PCIe bridge, hence no ACS"
                                    : fmt::format("no ACS redirects on {} bridges", facts.bridges.size())});
  findings.front().data["bridges"] = facts.bridges.size();
  findings.front().data["iommu"] = facts.iommu;
  return findings;
}

}  // namespace tutti::doctor
