#include "doctor/processors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "doctor/control_group.hpp"

namespace tutti::doctor {

namespace {

/// Processors' time that a group grants.
std::optional<double> quota(const Root& root, const ControlGroup& group) {
  double granted = 0, period = 0;
  if (group.v2) {
    std::istringstream(root.text(group.directory + "/cpu.max").value_or("")) >> granted >> period;
  } else {
    granted = static_cast<double>(root.number(group.directory + "/cpu.cfs_quota_us").value_or(-1));
    period = static_cast<double>(root.number(group.directory + "/cpu.cfs_period_us").value_or(0));
  }
  return granted > 0 && period > 0 ? std::optional(granted / period) : std::nullopt;
}

/// The smallest of all groups.
std::optional<double> quota(const Root& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups(root, "cpu"))
    if (const auto one = quota(root, group); one && (!least || *one < *least)) least = one;
  return least;
}

Finding examine_ranks(const ProcessorFacts& facts) {
  const auto& [count, processors] = facts.ranks;
  Finding finding{.area = "processors",
                  .what = fmt::format("{} of {} processors may be used, by {} rank{}", processors,
                                      facts.online, count, count == 1 ? "" : "s")};
  finding.data = {{"online", facts.online}, {"allowed", processors}, {"ranks", count}};
  if (count <= processors) return finding;
  finding.level = Level::warning;
  finding.what += ": ranks take turns, and every message waits for the scheduler";
  finding.remedy =
      processors < facts.online
          ? "let the launcher bind ranks to processors of their own (mpirun --bind-to core, srun "
            "--cpu-bind=cores), or give the container more"
          : "start fewer ranks on this machine";
  return finding;
}

Finding examine_load(const ProcessorFacts& facts) {
  Finding finding{.area = "processors",
                  .what = fmt::format("load {:.1f} in the last minute", facts.load),
                  .data = {{"load", facts.load}}};
  if (facts.load <= 1.5 * facts.online) return finding;
  finding.level = Level::warning;
  finding.what += fmt::format(
      " on {} processors: other programs compete with ranks, times measured now say little", facts.online);
  finding.remedy = "see who it is (top), and measure again without";
  return finding;
}

Finding examine_nodes(const ProcessorFacts& facts) {
  Finding finding{
      .area = "processors",
      .what = fmt::format("{} NUMA node{}", facts.nodes.size(), facts.nodes.size() == 1 ? "" : "s")};
  finding.data = {{"numa_nodes", facts.nodes}};
  if (facts.nodes.size() < 2) return finding;
  for (std::size_t i = 0; i < facts.nodes.size(); ++i)
    finding.what += fmt::format("{} {}", i == 0 ? ": processors" : ";", facts.nodes[i]);
  finding.level = Level::note;
  finding.remedy =
      "bind ranks, so that none moves away from its memory (mpirun --bind-to core, srun --cpu-bind)";
  return finding;
}

}  // namespace

ProcessorFacts read_processors(const Root& root, const RanksHere& ranks) {
  ProcessorFacts facts{.ranks = ranks, .quota = quota(root)};
  facts.online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  std::istringstream(root.text("/proc/loadavg").value_or("0")) >> facts.load;
  const std::string nodes = "/sys/devices/system/node/";
  for (const auto& name : root.names(nodes))
    if (const auto list = root.text(nodes + name + "/cpulist"); list && !list->empty())
      facts.nodes.push_back(*list);
  return facts;
}

Findings examine(const ProcessorFacts& facts) {
  Findings findings{examine_ranks(facts), examine_load(facts)};
  if (facts.quota && *facts.quota < facts.ranks.processors)
    findings.push_back(
        {.area = "processors",
         .level = *facts.quota < facts.ranks.count ? Level::warning : Level::note,
         .what = fmt::format(
             "the control group grants the time of {:.1f} processors: ranks are stopped now and then",
             *facts.quota),
         .remedy = "raise the limit (docker --cpus, Kubernetes limits.cpu), or start fewer ranks",
         .data = {{"quota", *facts.quota}}});
  if (!facts.nodes.empty()) findings.push_back(examine_nodes(facts));
  return findings;
}

}  // namespace tutti::doctor
