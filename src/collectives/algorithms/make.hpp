/// \file
/// One function for every algorithm: (ranks, root) -> schedule. Each ends in the table of algorithms.cpp.
#pragma once

#include <tutti/schedule.hpp>

namespace tutti::make {

Schedule all_reduce_all_pairs(int ranks, Rank root);
Schedule all_reduce_two_shot(int ranks, Rank root);
Schedule all_reduce_ring(int ranks, Rank root);
Schedule all_reduce_double_tree(int ranks, Rank root);
Schedule all_reduce_doubling(int ranks, Rank root);
Schedule all_reduce_halving_doubling(int ranks, Rank root);
Schedule all_reduce_direct(int ranks, Rank root);
Schedule all_reduce_direct_pull(int ranks, Rank root);

Schedule reduce_all_pairs(int ranks, Rank root);
Schedule reduce_two_shot(int ranks, Rank root);
Schedule reduce_tree(int ranks, Rank root);
Schedule reduce_direct(int ranks, Rank root);
Schedule reduce_direct_pull(int ranks, Rank root);

Schedule reduce_scatter_all_pairs(int ranks, Rank root);
Schedule reduce_scatter_ring(int ranks, Rank root);
Schedule reduce_scatter_halving(int ranks, Rank root);
Schedule reduce_scatter_direct_pull(int ranks, Rank root);

Schedule all_gather_all_pairs(int ranks, Rank root);
Schedule all_gather_ring(int ranks, Rank root);
Schedule all_gather_doubling(int ranks, Rank root);
Schedule all_gather_direct(int ranks, Rank root);
Schedule all_gather_direct_pull(int ranks, Rank root);

Schedule broadcast_all_pairs(int ranks, Rank root);
Schedule broadcast_tree(int ranks, Rank root);
Schedule broadcast_chain(int ranks, Rank root);
Schedule broadcast_scatter_all_gather(int ranks, Rank root);
Schedule broadcast_direct(int ranks, Rank root);
Schedule broadcast_direct_pull(int ranks, Rank root);

Schedule gather_all_pairs(int ranks, Rank root);
Schedule gather_direct(int ranks, Rank root);
Schedule gather_direct_pull(int ranks, Rank root);

Schedule scatter_all_pairs(int ranks, Rank root);
Schedule scatter_direct_pull(int ranks, Rank root);

Schedule all_to_all_pairwise(int ranks, Rank root);
Schedule all_to_all_exchange(int ranks, Rank root);
Schedule all_to_all_bruck(int ranks, Rank root);
Schedule all_to_all_direct_pull(int ranks, Rank root);

Schedule barrier_dissemination(int ranks, Rank root);

// For nodes of `node_size` consecutive ranks, of which the last may have fewer.
Schedule all_reduce_hierarchical(int ranks, int node_size);
Schedule all_reduce_hierarchical_tree(int ranks, int node_size);
Schedule reduce_scatter_hierarchical(int ranks, int node_size);
Schedule all_gather_hierarchical(int ranks, int node_size);
Schedule all_to_all_hierarchical(int ranks, int node_size);
Schedule all_to_all_grid(int ranks, int node_size);

}  // namespace tutti::make
