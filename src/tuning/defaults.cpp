// Constants of machines where tutti-tune has not run. docs/simulation.md says where they come from.
#include <tutti/error.hpp>

#include "tuning/tuning.hpp"

namespace tutti::tuning {

namespace {

constexpr double ns = 1e-9, us = 1e-6;
constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
constexpr double at(double gigabytes_a_second) { return 1e-9 / gigabytes_a_second; }

// Two ranks on two cores of an EPYC: lines up to 512 bytes, slots, caches, memory.
Curve two_ranks() {
  return {.transport = "shm",
          .ranks = 2,
          .points = {{64, {60 * ns, 150 * ns, 40 * ns, 15 * ns, at(10), at(20)}},
                     {4 * KiB, {60 * ns, 150 * ns, 60 * ns, 15 * ns, at(20), at(25)}},
                     {64 * KiB, {60 * ns, 200 * ns, 100 * ns, 15 * ns, at(25), at(30)}},
                     {1 * MiB, {60 * ns, 200 * ns, 100 * ns, 15 * ns, at(25), at(25)}},
                     {16 * MiB, {60 * ns, 200 * ns, 100 * ns, 15 * ns, at(12), at(12)}}}};
}

// Those of two ranks, each kind of cost so many times as much.
Curve more_ranks(int ranks, const simulation::HostCosts& times) {
  Curve curve = two_ranks();
  curve.ranks = ranks;
  for (Point& point : curve.points)
    for (double simulation::HostCosts::*cost : simulation::host_costs) point.costs.*cost *= times.*cost;
  return curve;
}

// On cores of their own of a 16-core Emerald Rapids, whose choices these are fitted to: what several read
// from a core's cache comes slower, and of sixteen the farther cores count.
Curve eight_ranks() { return more_ranks(8, {1, 1, 0.7, 1, 1.4, 1.6}); }
Curve sixteen_ranks() { return more_ranks(16, {1, 1.4, 1, 1, 1.2, 1}); }

// Two network namespaces; of what receiving takes, most is copying by the kernel.
Curve tcp() {
  return {.transport = "tcp",
          .ranks = 2,
          .points = {{64, {60 * ns, 2 * us, 2.5 * us, 15 * ns, at(3.5), at(20)}},
                     {64 * KiB, {60 * ns, 2 * us, 2.5 * us, 15 * ns, at(3.5), at(25)}},
                     {16 * MiB, {60 * ns, 2 * us, 10 * us, 15 * ns, at(3.5), at(12)}}}};
}

// Assumed: an adapter's latency and what posting takes; payload is copied out of slots.
Curve verbs() {
  return {.transport = "verbs",
          .ranks = 2,
          .points = {{64, {60 * ns, 1.5 * us, 200 * ns, 15 * ns, at(10), at(20)}},
                     {16 * MiB, {60 * ns, 1.5 * us, 300 * ns, 15 * ns, at(10), at(12)}}}};
}

}  // namespace

const Curve& default_curve(std::string_view transport, int ranks) {
  // Never destroyed: static objects of a program may make communicators when they go.
  static const auto& curves =
      *new std::vector<Curve>{two_ranks(), eight_ranks(), sixteen_ranks(), tcp(), verbs()};
  if (const Curve* curve = nearest(curves, transport, ranks)) return *curve;
  throw Error(ErrorCode::invalid_argument,
              "transport \"" + std::string(transport) + "\" does not exist; there are shm, verbs and tcp");
}

}  // namespace tutti::tuning
