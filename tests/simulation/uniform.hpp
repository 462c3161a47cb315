/// \file
/// The network of textbooks, of which formulas are known.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "simulation/network.hpp"

namespace tutti::simulation {

/// Every rank has a port of `beta` s a byte each way; any two are `alpha` s apart. Work costs `gamma` s a
/// byte reduced, and nothing else.
inline Network uniform(int ranks, double alpha, double beta, double gamma = 0) {
  Network network;
  network.ranks = ranks;
  network.bandwidth.assign(2 * static_cast<std::size_t>(ranks), 1 / beta);
  network.costs = {{.alpha = alpha, .copies = false}};
  network.processor.fold = gamma;
  network.processor.serial = false;
  network.route = [](Rank from, Rank to) {
    Route route;
    route.cross(2 * from);
    route.cross(2 * to + 1);
    return route;
  };
  network.link_name = [](int link) {
    return fmt::format("rank {} {}", link / 2, link % 2 == 0 ? "out" : "in");
  };
  return network;
}

}  // namespace tutti::simulation
