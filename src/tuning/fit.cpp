#include "tuning/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

#include "collectives/algorithms.hpp"
#include "tuning/predict.hpp"

namespace tutti::tuning {

namespace {

using simulation::HostCosts;
using simulation::Spent;

constexpr std::size_t N = simulation::host_costs.size();
using Vector = std::array<double, N>;
using Matrix = std::array<Vector, N>;

// Ranks that were measured have one transport among all of them.
Costs costs_of(const HostCosts& costs) { return {.inside = {.costs = costs}, .between = {.costs = costs}}; }

// In the order of simulation::host_costs.
Vector parts(const Spent& spent) {
  return {spent.calls, spent.latency, spent.messages, spent.steps, spent.copies, spent.folds};
}

// Whether calls that follow each other take as long as one does. Where one rank only takes and the others
// only give, or the other way round, they overlap: such times tell nothing of latencies, but how algorithms
// compare.
bool in_step(const Sample& sample) {
  const Collective collective = sample.question.collective;
  return collective != Collective::reduce && collective != Collective::gather &&
         collective != Collective::scatter;
}

// Gauss with pivots in order: `a` is symmetric and positive definite.
Vector solve(Matrix a, Vector b) {
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t row = i + 1; row < N; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < N; ++column) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  for (std::size_t i = N; i-- > 0;) {
    for (std::size_t column = i + 1; column < N; ++column) b[i] -= a[i][column] * b[column];
    b[i] /= a[i][i];
  }
  return b;
}

struct Fitted {
  double error = 0;  ///< sum of squares
  Vector step{};     ///< towards less, in logarithms
};

Fitted improve(std::span<const Sample> samples, const HostCosts& costs, const Vector& from_start,
               double damping) {
  // A change by a factor e of a constant that no sample tells of counts as much as an error of 5 % of one.
  constexpr double inertia = 0.0025;
  Fitted fitted;
  Matrix normal{};
  Vector gradient{};
  for (std::size_t i = 0; i < N; ++i) {
    normal[i][i] = inertia + damping;
    gradient[i] = -inertia * from_start[i];
    fitted.error += inertia * from_start[i] * from_start[i];
  }
  for (const Sample& sample : samples) {
    const Algorithm& algorithm = *find_algorithm(sample.question.collective, sample.algorithm);
    const Spent spent = simulate(sample.question, algorithm, costs_of(costs)).steady;
    const double total = spent.total();
    const double residual = std::log(sample.seconds / total);
    Vector share = parts(spent);
    for (double& part : share) part /= total;
    fitted.error += residual * residual;
    for (std::size_t i = 0; i < N; ++i) {
      gradient[i] += share[i] * residual;
      for (std::size_t j = 0; j < N; ++j) normal[i][j] += share[i] * share[j];
    }
  }
  fitted.step = solve(normal, gradient);
  return fitted;
}

}  // namespace

HostCosts fit(std::span<const Sample> samples, const HostCosts& start) {
  constexpr int rounds = 30;
  constexpr double most = 0.7;  // a round changes a constant by no more than a factor of two
  HostCosts best = start;
  Vector from_start{};
  double damping = 0.01;
  Fitted at = improve(samples, best, from_start, damping);
  for (int round = 0; round < rounds && damping < 1e3; ++round) {
    HostCosts tried = best;
    Vector moved = from_start;
    double longest = 0;
    for (std::size_t i = 0; i < N; ++i) {
      const double step = std::clamp(at.step[i], -most, most);
      longest = std::max(longest, std::abs(step));
      tried.*simulation::host_costs[i] *= std::exp(step);
      moved[i] += step;
    }
    constexpr double settled = 1e-3;
    if (longest < settled) break;
    const Fitted next = improve(samples, tried, moved, damping);
    if (next.error < at.error) {
      best = tried;
      from_start = moved;
      at = next;
      damping /= 3;
    } else {
      damping = std::max(damping, 1e-3) * 4;
      at.step = improve(samples, best, from_start, damping).step;
    }
  }
  return best;
}

Curve fit_curve(std::span<const Sample> samples) {
  std::map<std::size_t, std::vector<Sample>> by_size;
  for (const Sample& sample : samples) by_size[sample.question.bytes].push_back(sample);
  const Scene& scene = samples[0].question.scene;
  Curve curve{.transport = scene.transport, .ranks = scene.ranks, .cpus = scene.cpus};
  std::vector<std::map<std::string, double>> factors;
  HostCosts costs;
  for (const auto& [bytes, those] : by_size) {
    std::vector<Sample> telling;
    std::ranges::copy_if(those, std::back_inserter(telling), in_step);
    costs = fit(telling, costs);
    curve.points.push_back({.bytes = bytes, .costs = costs});
    auto& of_size = factors.emplace_back();
    for (const Sample& sample : those) {
      const Algorithm& algorithm = *find_algorithm(sample.question.collective, sample.algorithm);
      of_size[key_of(algorithm)] =
          sample.seconds / simulate(sample.question, algorithm, costs_of(costs)).steady.total();
    }
  }
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (const auto& [key, own] : factors[i]) {
      std::vector<double> near = {own};
      for (const std::size_t neighbour : {i - 1, i + 1})
        if (neighbour < factors.size() && factors[neighbour].contains(key))
          near.push_back(factors[neighbour].at(key));
      std::ranges::sort(near);
      curve.points[i].factors[key] = near.size() == 2 ? own : near[near.size() / 2];
    }
  return curve;
}

}  // namespace tutti::tuning
