/// \file
/// The ranks that examine together, connected by the hub of their session alone: it works where tutti's
/// transports do not.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bootstrap/session.hpp"

namespace tutti::doctor {

/// Ranks that share a kernel and its name spaces.
struct Machine {
  std::string name{};
  std::vector<int> ranks{};  ///< ascending
  int processors = 0;        ///< that they may run on, all together
};

/// How long a rank tries to connect to machines that do not answer: a silent firewall and three lost first
/// packets look alike before 3 s.
inline constexpr std::chrono::seconds longest_probe{5};
/// How long ranks wait for one that is busy: measuring until its own deadline, or trying to connect.
inline std::chrono::milliseconds longest_busy(std::chrono::milliseconds timeout) {
  return 3 * timeout + 2 * longest_probe;
}

class Team {
 public:
  /// Throws as join_from_environment.
  Team(const std::string& interface, std::chrono::milliseconds timeout);
  /// Says goodbye.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int rank() const { return session_->rank(); }
  [[nodiscard]] int size() const { return session_->size(); }
  /// Numeric address of this rank's interface.
  [[nodiscard]] std::string address() const { return session_->address(); }
  /// Every rank's value. Collective. Throws Error.
  std::vector<nlohmann::json> gather(const nlohmann::json& mine);
  /// Collective.
  std::vector<Machine> machines();

 private:
  std::chrono::milliseconds timeout_;
  std::shared_ptr<bootstrap::Session> session_;
};

/// Position in `machines` of the one that `rank` runs on.
std::size_t machine_of(const std::vector<Machine>& machines, int rank);

}  // namespace tutti::doctor
