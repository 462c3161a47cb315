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

}  // namespace tutti::simulation
