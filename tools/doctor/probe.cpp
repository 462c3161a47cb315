#include "doctor/probe.hpp"

#include <algorithm>
#include <cerrno>
#include <future>
#include <system_error>

#include <tutti/error.hpp>

#include "bootstrap/socket.hpp"

namespace tutti::doctor {

namespace {

/// Nothing when a connection came about, else why not.
std::string why_not(const bootstrap::Endpoint& endpoint) {
  try {
    if (bootstrap::try_connect(endpoint, Deadline(longest_probe))) return {};
    return errno == ETIMEDOUT ? "no answer" : std::generic_category().message(errno);
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(text.rfind(": ") + 2);
  }
}

/// Tries all at once: silence takes its time.
nlohmann::json try_all(const std::vector<int>& peers, const std::vector<nlohmann::json>& endpoints) {
  struct Trial {
    int to;
    bootstrap::Endpoint endpoint;
    std::future<std::string> result;
  };
  std::vector<Trial> trials;
  for (const int peer : peers) {
    const auto& at = endpoints.at(static_cast<std::size_t>(peer));
    const bootstrap::Endpoint endpoint{.address = at.at("address"), .port = at.at("port")};
    trials.push_back({peer, endpoint, std::async(std::launch::async, why_not, endpoint)});
  }
  nlohmann::json failed = nlohmann::json::array();
  for (auto& trial : trials)
    if (const std::string why = trial.result.get(); !why.empty())
      failed.push_back({{"to", trial.to}, {"address", to_string(trial.endpoint)}, {"why", why}});
  return failed;
}

}  // namespace

std::vector<Blocked> probe_connections(Team& team, const std::vector<Machine>& machines,
                                       const std::vector<int>& ranks) {
  const auto listener = bootstrap::listen_at({.address = team.address(), .port = 0});
  const auto mine = bootstrap::local_endpoint(listener.get());
  const auto endpoints = team.gather({{"address", mine.address}, {"port", mine.port}});
  std::vector<int> peers;
  if (std::ranges::find(ranks, team.rank()) != ranks.end())
    std::ranges::copy_if(ranks, std::back_inserter(peers), [&](int peer) {
      return machine_of(machines, peer) != machine_of(machines, team.rank());
    });
  std::vector<Blocked> blocked;
  for (int from = 0; const auto& failed : team.gather(try_all(peers, endpoints))) {
    for (const auto& one : failed)
      blocked.push_back(
          {.from = from, .to = one.at("to"), .address = one.at("address"), .why = one.at("why")});
    ++from;
  }
  return blocked;
}

}  // namespace tutti::doctor
