#include "doctor/team.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "base/processors.hpp"
#include "base/system_error.hpp"
#include "bootstrap/environment.hpp"
#include "json_text.hpp"
#include "topology/host.hpp"

namespace tutti::doctor {

namespace {

nlohmann::json introduction() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const auto host = topology::this_host();
  std::vector<int> id(host.size());
  std::ranges::transform(host, id.begin(), [](std::byte byte) { return std::to_integer<int>(byte); });
  const std::vector<int> processors = allowed_processors();
  if (processors.empty()) throw_errno("sched_getaffinity");
  return {{"name", name.data()}, {"id", id}, {"processors", processors}};
}

}  // namespace

Team::Team(const std::string& interface, std::chrono::milliseconds timeout)
    : timeout_(timeout), session_(bootstrap::join_from_environment(interface, timeout)) {}

Team::~Team() { session_->leave(std::chrono::seconds(5)); }

std::vector<nlohmann::json> Team::gather(const nlohmann::json& mine) {
  const std::string text = json_text(mine);
  std::vector<nlohmann::json> all;
  for (const auto& bytes : session_->all_gather(std::as_bytes(std::span(text)), longest_busy(timeout_))) {
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    all.push_back(nlohmann::json::parse(begin, begin + bytes.size()));
  }
  return all;
}

std::vector<Machine> Team::machines() {
  std::vector<Machine> machines;
  std::map<std::vector<int>, std::size_t> number_of;
  std::vector<std::set<int>> processors;
  for (int rank = 0; const auto& one : gather(introduction())) {
    const auto [at, is_new] = number_of.try_emplace(one.at("id").get<std::vector<int>>(), machines.size());
    if (is_new) {
      machines.push_back({.name = one.at("name"), .ranks = {}});
      processors.emplace_back();
    }
    machines[at->second].ranks.push_back(rank++);
    const auto allowed = one.at("processors").get<std::vector<int>>();
    processors[at->second].insert(allowed.begin(), allowed.end());
    machines[at->second].processors = static_cast<int>(processors[at->second].size());
  }
  return machines;
}

std::size_t machine_of(const std::vector<Machine>& machines, int rank) {
  const auto at = std::ranges::find_if(
      machines, [&](const Machine& one) { return std::ranges::binary_search(one.ranks, rank); });
  return static_cast<std::size_t>(at - machines.begin());
}

}  // namespace tutti::doctor
