#include "tuning/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/fork_guard.hpp"
#include "tuning/decide.hpp"

namespace tutti::tuning {

using simulation::HostCosts;

std::string key_of(const Algorithm& algorithm) {
  return std::string(name(algorithm.collective)) + " " + std::string(algorithm.name);
}

double Point::factor(const Algorithm& algorithm) const {
  const auto found = factors.find(key_of(algorithm));
  return found == factors.end() ? 1 : found->second;
}

Point Curve::at(std::size_t bytes) const {
  const auto after = std::ranges::find_if(points, [&](const Point& point) { return point.bytes >= bytes; });
  if (after == points.end()) return points.back();
  if (after == points.begin() || after->bytes == bytes) return *after;
  const Point& below = *std::prev(after);
  const double share = std::log(static_cast<double>(bytes) / static_cast<double>(below.bytes)) /
                       std::log(static_cast<double>(after->bytes) / static_cast<double>(below.bytes));
  const auto between = [&](double low, double high) {
    return std::exp(std::lerp(std::log(low), std::log(high), share));
  };
  Point point{.bytes = bytes};
  for (double HostCosts::*cost : simulation::host_costs)
    point.costs.*cost = between(below.costs.*cost, after->costs.*cost);
  for (const auto& [key, factor] : below.factors)
    if (const auto other = after->factors.find(key); other != after->factors.end())
      point.factors[key] = between(factor, other->second);
  return point;
}

const Curve* nearest(std::span<const Curve> curves, std::string_view transport, int ranks) {
  const Curve* best = nullptr;
  const auto far = [&](const Curve& curve) {
    return std::abs(std::log(static_cast<double>(curve.ranks) / static_cast<double>(ranks)));
  };
  for (const Curve& curve : curves)
    if (curve.transport == transport && (best == nullptr || far(curve) < far(*best))) best = &curve;
  return best;
}

Costs Tuning::costs(const Scene& scene, std::size_t bytes) const {
  Costs costs;
  const Curve* alike = measured("shm", scene.together());
  costs.crowd = std::max(1.0, scene.crowd() / (alike == nullptr ? 1 : alike->crowd()));
  const auto point = [&](const std::string& transport, int ranks) {
    const Curve* curve = measured(transport, ranks);
    const int at_once = costs.crowd > 1 ? std::min(ranks, scene.cpus) : ranks;
    return (curve != nullptr ? *curve : default_curve(transport, at_once)).at(bytes);
  };
  if (scene.transport == "shm") {
    costs.inside = point("shm", scene.ranks);
    return costs;
  }
  costs.between = point(scene.transport, scene.ranks);
  if (scene.host_size == 1) return costs;
  costs.inside = point("shm", scene.host_size);
  costs.between.factors.clear();  // they were measured without shared memory
  return costs;
}

std::shared_ptr<const Tuning> Tuning::defaults() {
  struct Unmeasured {
    std::shared_ptr<const Tuning> tuning = std::make_shared<const Tuning>(0, std::vector<Curve>{});
  };
  static PerProcess<Unmeasured> all;
  return all.get().tuning;
}

void Tuning::keep(const Scene& scene, Choices choices) { kept_.insert_or_assign(scene, std::move(choices)); }

std::shared_ptr<const Choices> Tuning::choices(const Scene& scene) const {
  const std::scoped_lock lock(mutex_);
  auto& known = decided_[scene];
  if (known == nullptr) {
    const auto before = std::ranges::find_if(kept_, [&](const auto& kept) {
      Scene with_cpus = kept.first;
      with_cpus.cpus = scene.cpus;
      return with_cpus == scene && scene.crowd() <= kept.first.crowd();
    });
    known = std::make_shared<const Choices>(
        decide(*this, scene, before == kept_.end() ? Choices() : before->second));
  }
  return known;
}

}  // namespace tutti::tuning
