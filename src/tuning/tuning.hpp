/// \file
/// What was measured on a machine, and what follows from it: constants of the simulator's model by transport,
/// ranks and size, and the algorithms that the simulator then finds fastest. `tutti-tune` makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <tutti/schedule.hpp>

#include "collectives/algorithms.hpp"
#include "simulation/host_network.hpp"

namespace tutti::tuning {

/// What calls of one size cost. Sizes differ in more than bytes: small messages travel in one cache line,
/// large ones leave the caches.
struct Point {
  std::size_t bytes = 0;  ///< nccl-tests' size of the call
  simulation::HostCosts costs{};
  /// What an algorithm ("all_reduce ring") took, over what the model says with these costs: how it uses
  /// caches and processors that ranks share. Those that are not here were not measured, and count as 1.
  std::map<std::string, double> factors{};

  [[nodiscard]] double factor(const Algorithm& algorithm) const;
};
/// The key of `Point::factors`.
std::string key_of(const Algorithm& algorithm);

/// Ranks of one host over one transport.
struct Curve {
  std::string transport;  ///< "shm" or "tcp"
  int ranks = 0;
  std::vector<Point> points{};  ///< ascending sizes, not empty

  /// Between two points interpolated in the logarithms; beyond the ends, as at the end.
  [[nodiscard]] Point at(std::size_t bytes) const;
};

/// A call, as far as the choice of an algorithm goes.
struct Question {
  std::string transport{};
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  std::size_t bytes = 0;
  bool operator==(const Question&) const = default;
};

/// Sizes that take the same decision: those of one class are more than half the largest of them.
int size_class(std::size_t bytes);
std::size_t largest_of(int size_class);

class Tuning {
 public:
  Tuning(std::uint64_t machine, std::vector<Curve> curves) : machine_(machine), curves_(std::move(curves)) {}
  /// topology::hash of the machine it was measured on.
  [[nodiscard]] std::uint64_t machine() const { return machine_; }
  [[nodiscard]] const std::vector<Curve>& curves() const { return curves_; }
  /// The curve of that transport whose number of ranks is nearest; nullptr: none of that transport.
  [[nodiscard]] const Curve* curve(std::string_view transport, int ranks) const;
  /// The fastest algorithm that sends messages, as the simulator sees it; nullptr when the transport was not
  /// measured. Decided once a class of sizes and kept. Thread-safe.
  [[nodiscard]] const Algorithm* choose(const Question& question) const;
  /// Decides all classes up to `largest` for the numbers of ranks that were measured.
  void decide(std::size_t largest) const;

  using Key = std::tuple<std::string, Collective, int, int>;  ///< transport, collective, ranks, size class
  /// What was decided so far.
  [[nodiscard]] std::map<Key, const Algorithm*> choices() const;
  void keep(const Key& key, const Algorithm* algorithm) const;

 private:
  std::uint64_t machine_;
  std::vector<Curve> curves_;
  mutable std::mutex mutex_;
  mutable std::map<Key, const Algorithm*> choices_;
};

/// All algorithms that send messages and need no nodes, the fastest first; of equals, the simplest.
struct Ranked {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;  ///< a call, when calls follow each other
};
std::vector<Ranked> rank_algorithms(const Question& question, const Point& costs);

/// What one algorithm takes, a call, when calls follow each other.
double predict(const Question& question, const Algorithm& algorithm, const Point& costs);

}  // namespace tutti::tuning
