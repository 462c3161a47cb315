#include "doctor/memory.hpp"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/resource.h>

#include "doctor/control_group.hpp"
#include "doctor/size.hpp"

namespace tutti::doctor {

namespace {

constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;  // cgroup v1 writes nearly 2^63 for none

std::uint64_t kilobytes(const Root& root, const std::string& key) {
  const auto text = root.field("/proc/meminfo", key);
  return text ? std::strtoull(text->c_str(), nullptr, 10) << 10 : 0;
}

/// The smallest limit of all groups.
std::optional<std::uint64_t> group_limit(const Root& root) {
  std::optional<std::uint64_t> least;
  for (const auto& [directory, v2] : control_groups(root, "memory")) {
    const auto limit = root.number(directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto bytes = static_cast<std::uint64_t>(limit.value_or(0));
    if (limit && bytes < no_limit && (!least || bytes < *least)) least = bytes;
  }
  return least;
}

Finding examine_memlock(const MemoryFacts& facts) {
  constexpr std::uint64_t one_fifo = 1 << 20, plenty = std::uint64_t{1} << 30;
  Finding finding{.area = "memory", .what = "locked memory is not limited"};
  finding.data = {{"memlock_bytes", nullptr}, {"may_lock_all", facts.may_lock_all}};
  if (!facts.memlock) return finding;
  finding.data["memlock_bytes"] = *facts.memlock;
  finding.what = "locked memory is limited to " + bytes_in_words(*facts.memlock);
  if (facts.may_lock_all) {
    finding.what += ", which does not bind this process (CAP_IPC_LOCK)";
    return finding;
  }
  if (!facts.rdma) finding.what += "; only RDMA needs more, and there is no device";
  if (!facts.rdma || *facts.memlock >= plenty) {
    finding.level = facts.rdma ? Level::ok : Level::note;
    return finding;
  }
  finding.level = *facts.memlock < one_fifo ? Level::error : Level::warning;
  finding.what += "; RDMA locks 1 MiB for every channel in use, and all memory that is registered";
  finding.remedy =
      "\"* - memlock unlimited\" in /etc/security/limits.d/tutti.conf and a new login; under Slurm "
      "LimitMEMLOCK=infinity for slurmd; in containers --ulimit memlock=-1";
  return finding;
}

Finding examine_amount(const MemoryFacts& facts) {
  Finding finding{.area = "memory",
                  .what = fmt::format("{} of {} memory available", bytes_in_words(facts.available),
                                      bytes_in_words(facts.total))};
  finding.data = {
      {"total_bytes", facts.total}, {"available_bytes", facts.available}, {"group_limit_bytes", nullptr}};
  if (!facts.group_limit) return finding;
  finding.data["group_limit_bytes"] = *facts.group_limit;
  if (*facts.group_limit >= facts.total) return finding;
  finding.level = Level::note;
  finding.what +=
      fmt::format("; the control group limits its processes to {}, tutti's shared memory included",
                  bytes_in_words(*facts.group_limit));
  return finding;
}

Finding examine_huge_pages(const MemoryFacts& facts) {
  Finding finding{.area = "memory", .data = {{"pools", nlohmann::json::array()}}};
  std::string pools;
  for (const auto& pool : facts.huge_pages) {
    finding.data["pools"].push_back(
        {{"page_bytes", pool.page_bytes}, {"total", pool.total}, {"free", pool.free}});
    if (pool.total > 0)
      pools += fmt::format("{}{} of {} pages of {} free", pools.empty() ? "" : ", ", pool.free, pool.total,
                           bytes_in_words(pool.page_bytes));
  }
  const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
  finding.data["transparent"] = facts.transparent;
  finding.data["transparent_shared"] = facts.transparent_shared;
  finding.what = fmt::format("huge pages: {}; transparent: {}, for shared memory: {}",
                             pools.empty() ? "none reserved" : pools, or_none(facts.transparent),
                             or_none(facts.transparent_shared));
  if (facts.transparent != "never" && !facts.transparent.empty()) return finding;
  finding.level = Level::note;
  finding.remedy =
      "with \"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled\" ranks of this machine read each "
      "other's large plain buffers in half of the time";
  return finding;
}

}  // namespace

MemoryFacts read_memory(const Root& root) {
  MemoryFacts facts;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.memlock = limit.rlim_cur;
  facts.may_lock_all = root.capable(CAP_IPC_LOCK);
  facts.rdma = root.has_rdma();
  facts.total = kilobytes(root, "MemTotal");
  facts.available = kilobytes(root, "MemAvailable");
  facts.group_limit = group_limit(root);
  const std::string pools = "/sys/kernel/mm/hugepages/", prefix = "hugepages-";
  const auto count = [&](const std::string& file) {
    return static_cast<std::uint64_t>(root.number(pools + file).value_or(0));
  };
  for (const auto& name : root.names(pools))
    facts.huge_pages.push_back({.page_bytes = std::strtoull(name.c_str() + prefix.size(), nullptr, 10) << 10,
                                .total = count(name + "/nr_hugepages"),
                                .free = count(name + "/free_hugepages")});
  const std::string transparent = "/sys/kernel/mm/transparent_hugepage/";
  facts.transparent = bracketed(root.text(transparent + "enabled").value_or(""));
  facts.transparent_shared = bracketed(root.text(transparent + "shmem_enabled").value_or(""));
  return facts;
}

Findings examine(const MemoryFacts& facts) {
  return {examine_amount(facts), examine_memlock(facts), examine_huge_pages(facts)};
}

}  // namespace tutti::doctor
