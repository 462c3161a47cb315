#include "simulation/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <tutti/error.hpp>

namespace tutti::simulation {

void Route::cross(int link) {
  if (static_cast<std::size_t>(hops) == links.size())
    throw Error(ErrorCode::unsupported, fmt::format("a route between two ranks has more than {} links; the "
                                                    "simulator does not follow it",
                                                    links.size()));
  links[static_cast<std::size_t>(hops++)] = link;
}

bool Network::views() const { return std::ranges::any_of(costs, &PathCost::views); }

Network uniform(int ranks, double alpha, double beta, double gamma) {
  Network network;
  network.ranks = ranks;
  network.bandwidth.assign(2 * static_cast<std::size_t>(ranks), 1 / beta);
  network.costs = {{.name = "uniform", .alpha = alpha, .copies = false}};
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
