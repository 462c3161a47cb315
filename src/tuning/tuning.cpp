#include "tuning/tuning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace tutti::tuning {

using simulation::HostCosts;

int size_class(std::size_t bytes) { return bytes == 0 ? 0 : static_cast<int>(std::bit_width(bytes - 1)); }

std::size_t largest_of(int size_class) { return std::size_t{1} << static_cast<unsigned>(size_class); }

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

const Curve* Tuning::curve(std::string_view transport, int ranks) const {
  const Curve* best = nullptr;
  const auto far = [&](const Curve& curve) {
    return std::abs(std::log(static_cast<double>(curve.ranks) / static_cast<double>(ranks)));
  };
  for (const Curve& curve : curves_)
    if (curve.transport == transport && (best == nullptr || far(curve) < far(*best))) best = &curve;
  return best;
}

const Algorithm* Tuning::choose(const Question& question) const {
  const Curve* measured = curve(question.transport, question.ranks);
  if (measured == nullptr) return nullptr;
  const int sizes = size_class(question.bytes);
  const std::scoped_lock lock(mutex_);
  const Algorithm*& choice = choices_[{question.transport, question.collective, question.ranks, sizes}];
  if (choice == nullptr) {
    Question typical = question;
    typical.bytes = largest_of(sizes);
    choice = rank_algorithms(typical, measured->at(typical.bytes)).at(0).algorithm;
  }
  return choice;
}

void Tuning::decide(std::size_t largest) const {
  for (const Curve& curve : curves_)
    for (const Algorithm& algorithm : algorithms())
      for (int sizes = 0; sizes <= size_class(largest); ++sizes)
        (void)choose({curve.transport, algorithm.collective, curve.ranks, largest_of(sizes)});
}

std::map<Tuning::Key, const Algorithm*> Tuning::choices() const {
  const std::scoped_lock lock(mutex_);
  return choices_;
}

void Tuning::keep(const Key& key, const Algorithm* algorithm) const {
  const std::scoped_lock lock(mutex_);
  choices_.insert_or_assign(key, algorithm);
}

}  // namespace tutti::tuning
