/// \file
/// What was measured on a machine, and what follows from it: constants of the simulator's model by transport,
/// ranks and size, and the algorithms that the simulator then finds fastest. `tutti-tune` makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/schedule.hpp>

#include "collectives/algorithms.hpp"
#include "simulation/host_network.hpp"
#include "tuning/choices.hpp"
#include "tuning/scene.hpp"

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
  std::string transport;  ///< "shm", "tcp" or "verbs"
  int ranks = 0;
  std::vector<Point> points{};  ///< ascending sizes, not empty
  int cpus = 0;                 ///< that the ranks shared; 0: each had its own

  /// Ranks that shared a processor: what they waited for it is in the points.
  [[nodiscard]] double crowd() const { return crowd_of(ranks, cpus); }
  /// Between two points interpolated in the logarithms; beyond the ends, as at the end.
  [[nodiscard]] Point at(std::size_t bytes) const;
};

/// Of those of that transport the one whose number of ranks is nearest, by ratio; nullptr: there are none.
const Curve* nearest(std::span<const Curve> curves, std::string_view transport, int ranks);

/// What nobody measured on this machine: the constants of that many ranks that work at once, on machines that
/// docs/simulation.md names. Throws Error(invalid_argument) for a transport that does not exist.
const Curve& default_curve(std::string_view transport, int ranks);

/// What one size costs in a scene.
struct Costs {
  Point inside;   ///< of ranks that share memory
  Point between;  ///< of those that do not; the factors are of the whole
  /// Ranks that share a processor, whose work adds up, for each that did where the points were measured.
  double crowd = 1;
};

/// A call, as far as the choice of an algorithm goes.
struct Question {
  Scene scene{};
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  bool operator==(const Question&) const = default;
};

class Tuning {
 public:
  Tuning(std::uint64_t machine, std::vector<Curve> curves) : machine_(machine), curves_(std::move(curves)) {}
  /// Of a machine whose constants cannot be used, because of `refused`.
  explicit Tuning(std::string refused) : refused_(std::move(refused)) {}
  /// Of machines where nothing was measured; one for the whole process.
  static std::shared_ptr<const Tuning> defaults();
  /// topology::hash_of_parts of the machine it was measured on.
  [[nodiscard]] std::uint64_t machine() const { return machine_; }
  [[nodiscard]] const std::vector<Curve>& curves() const { return curves_; }
  /// Why what was found is not used; "": nothing was found, or it is.
  [[nodiscard]] const std::string& refused() const { return refused_; }
  /// The nearest measured curve; nullptr: none was measured.
  [[nodiscard]] const Curve* measured(std::string_view transport, int ranks) const {
    return nearest(curves_, transport, ranks);
  }
  /// The constants of a call: measured ones, or else the defaults.
  [[nodiscard]] Costs costs(const Scene& scene, std::size_t bytes) const;

  /// The algorithms that are fastest by simulation, of messages, for every operation. Decided once for every
  /// scene, with bounded effort: see decide.hpp. Thread-safe.
  [[nodiscard]] std::shared_ptr<const Choices> choices(const Scene& scene) const;
  /// What was decided before, by whoever measured: for scenes like it, with no fewer processors.
  void keep(const Scene& scene, Choices choices);
  [[nodiscard]] std::map<Scene, Choices> kept() const { return kept_; }

 private:
  std::uint64_t machine_ = 0;
  std::vector<Curve> curves_;
  std::string refused_;
  std::map<Scene, Choices> kept_;
  mutable std::mutex mutex_;
  mutable std::map<Scene, std::shared_ptr<const Choices>> decided_;
};

}  // namespace tutti::tuning
