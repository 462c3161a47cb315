#include "tuning/tuning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace tutti::tuning {

using simulation::HostCosts;

int size_class(std::size_t bytes) { return bytes == 0 ? 0 : static_cast<int>(std::bit_width(bytes - 1)); }

std::size_t largest_of(int size_class) { return std::size_t{1} << static_cast<unsigned>(size_class); }

HostCosts Curve::at(std::size_t bytes) const {
  const auto after = std::ranges::find_if(points, [&](const Point& point) { return point.bytes >= bytes; });
  if (after == points.end()) return points.back().costs;
  if (after == points.begin() || after->bytes == bytes) return after->costs;
  const Point& below = *std::prev(after);
  const double share = std::log(static_cast<double>(bytes) / static_cast<double>(below.bytes)) /
                       std::log(static_cast<double>(after->bytes) / static_cast<double>(below.bytes));
  HostCosts costs;
  for (double HostCosts::*cost : simulation::host_costs)
    costs.*cost = std::exp(std::lerp(std::log(below.costs.*cost), std::log(after->costs.*cost), share));
  return costs;
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
  const Algorithm*& choice =
      choices_[{question.transport, question.collective, question.ranks, sizes}];
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
