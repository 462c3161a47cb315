#include "collectives/algorithms.hpp"

#include <algorithm>
#include <array>

#include "collectives/algorithms/make.hpp"

namespace tutti {
namespace {

using enum Collective;

// name, collective, flat, in_place, views, one_sided, writes_peers, by_nodes, in_place_in_turn
constexpr std::array table = {
    Algorithm{"all_pairs", all_reduce, make::all_reduce_all_pairs, true, false, false, false},
    Algorithm{"two_shot", all_reduce, make::all_reduce_two_shot, true, true, false, false},
    Algorithm{"ring", all_reduce, make::all_reduce_ring, true, true, false, false},
    Algorithm{"double_tree", all_reduce, make::all_reduce_double_tree, true, true, false, false},
    Algorithm{"doubling", all_reduce, make::all_reduce_doubling, true, false, false, false},
    Algorithm{"halving_doubling", all_reduce, make::all_reduce_halving_doubling, true, true, false, false},
    Algorithm{"hierarchical", all_reduce, nullptr, true, true, false, false, make::all_reduce_hierarchical},
    Algorithm{"hierarchical_tree", all_reduce, nullptr, true, true, false, false,
              make::all_reduce_hierarchical_tree},
    Algorithm{"direct", all_reduce, make::all_reduce_direct, true, true, true, true},
    Algorithm{"direct_pull", all_reduce, make::all_reduce_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", reduce, make::reduce_all_pairs, true, true, false, false},
    Algorithm{"two_shot", reduce, make::reduce_two_shot, true, true, false, false},
    Algorithm{"tree", reduce, make::reduce_tree, true, true, false, false},
    Algorithm{"direct", reduce, make::reduce_direct, true, true, true, true},
    Algorithm{"direct_pull", reduce, make::reduce_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", reduce_scatter, make::reduce_scatter_all_pairs, true, true, false, false},
    Algorithm{"ring", reduce_scatter, make::reduce_scatter_ring, true, true, false, false},
    Algorithm{"halving", reduce_scatter, make::reduce_scatter_halving, true, false, false, false},
    Algorithm{"hierarchical", reduce_scatter, nullptr, true, true, false, false,
              make::reduce_scatter_hierarchical},
    Algorithm{"direct_pull", reduce_scatter, make::reduce_scatter_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", all_gather, make::all_gather_all_pairs, true, true, false, false},
    Algorithm{"ring", all_gather, make::all_gather_ring, true, true, false, false},
    Algorithm{"doubling", all_gather, make::all_gather_doubling, true, true, false, false},
    Algorithm{"hierarchical", all_gather, nullptr, true, true, false, false, make::all_gather_hierarchical},
    Algorithm{"direct", all_gather, make::all_gather_direct, true, true, true, true},
    Algorithm{"direct_pull", all_gather, make::all_gather_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", broadcast, make::broadcast_all_pairs, true, true, false, false},
    Algorithm{"tree", broadcast, make::broadcast_tree, true, true, false, false},
    Algorithm{"chain", broadcast, make::broadcast_chain, true, true, false, false},
    Algorithm{"scatter_all_gather", broadcast, make::broadcast_scatter_all_gather, true, true, false, false},
    Algorithm{"direct", broadcast, make::broadcast_direct, true, true, true, true},
    Algorithm{"direct_pull", broadcast, make::broadcast_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", gather, make::gather_all_pairs, true, true, false, false},
    Algorithm{"direct", gather, make::gather_direct, true, true, true, true},
    Algorithm{"direct_pull", gather, make::gather_direct_pull, true, true, true, false},

    Algorithm{"all_pairs", scatter, make::scatter_all_pairs, true, true, false, false},
    Algorithm{"direct_pull", scatter, make::scatter_direct_pull, true, true, true, false},

    Algorithm{"pairwise", all_to_all, make::all_to_all_pairwise, false, true, false, false, nullptr, true},
    Algorithm{"exchange", all_to_all, make::all_to_all_exchange, true, false, false, false},
    Algorithm{"bruck", all_to_all, make::all_to_all_bruck, true, false, false, false},
    Algorithm{"hierarchical", all_to_all, nullptr, false, false, false, false, make::all_to_all_hierarchical},
    Algorithm{"grid", all_to_all, nullptr, false, false, false, false, make::all_to_all_grid},
    Algorithm{"direct_pull", all_to_all, make::all_to_all_direct_pull, false, true, true, false},

    Algorithm{"dissemination", barrier, make::barrier_dissemination, true, true, false, false},
};

}  // namespace

Schedule Algorithm::make(int ranks, Rank root, int node_size) const {
  if (by_nodes == nullptr) return flat(ranks, root);
  return by_nodes(ranks, node_size <= 0 ? ranks : std::min(node_size, ranks));
}

std::span<const Algorithm> algorithms() { return table; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  const auto* found = std::find_if(table.begin(), table.end(), [&](const Algorithm& algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return found == table.end() ? nullptr : found;
}

}  // namespace tutti
