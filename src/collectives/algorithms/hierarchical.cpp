// Algorithms for ranks in nodes: between nodes, data stays on its rail, so that every rank's adapter talks to
// one adapter a node. Phases are fused where they meet: what a rail's step sends on is folded from the
// neighbours' messages, and what it receives goes to the neighbours, in one step.
#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/nodes.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {
namespace {

/// Folds `chunk` of all ranks of the node of `self`.
void fold_node(Builder::At step, const Nodes& nodes, Rank self, int chunk, int channel = 0) {
  for (int i = nodes.size_of(nodes.of(self)) - 1; i > 0; --i) step.from(nodes.neighbour(self, i), channel);
  step.fold(in(chunk));
}

void to_node(Builder::At step, const Nodes& nodes, Rank self, int channel) {
  for (int i = 1; i < nodes.size_of(nodes.of(self)); ++i) step.to(nodes.neighbour(self, i), channel);
}

/// Calls `each(rail, server)` for all rails of the node of `self`: one of every server in turn, `self` first,
/// so that not everybody begins with the same one, then the next one of those that serve several.
template <typename Each>
void for_rails(const Nodes& nodes, Rank self, const Each& each) {
  const int node = nodes.of(self);
  const int first = nodes.first(node);
  const int servers = nodes.size_of(node);
  for (int turn = 0; turn < nodes.size; turn += servers) {
    for (int i = 0; i < servers; ++i) {
      const int place = (self - first + i) % servers;
      if (turn + place < nodes.size) each(turn + place, first + place);
    }
  }
}

}  // namespace

/// A ring on every rail: chunk (rail, c) starts at node c + 1, is complete at node c, and goes round once
/// more. Every hop folds the neighbours' messages on the way.
Schedule all_reduce_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::all_reduce, ranks, node_size * count, 4);
  b.credits(2);  // a step waits for room and for a message at once, and the ring is a circle
  for (const Rank me : b.ranks(nodes.period())) {
    const int node = nodes.of(me);
    for (int hop = 1; hop <= 2 * count - 1; ++hop) {
      for_rails(nodes, me, [&](int rail, Rank server) {
        const bool first = hop == 1;
        const bool completes = hop == count;
        const int chunk = rail * count + wrap(node - (hop % count), count);
        const Rank next = nodes.on_rail(node + 1, rail);
        const Rank prev = nodes.on_rail(node - 1, rail);
        if (server != me && hop <= count) b.at(me, 0).fold(in(chunk)).to(server);
        if (server != me && hop >= count) b.at(me, 3).store(out(chunk)).from(server, completes ? 1 : 2);
        if (server != me) return;
        if (hop <= count) {
          Builder::At sum = b.at(me, 1);
          if (!first) sum.from(prev);
          fold_node(sum, nodes, me, chunk);
          if (!completes) sum.to(next);
          if (completes && count > 1) sum.to(next, 1);
          if (completes) to_node(sum.complete().store(out(chunk)), nodes, me, 1);
        } else {
          Builder::At copy = b.at(me, 2).store(out(chunk)).from(prev, hop == count + 1 ? 1 : 2);
          if (hop + 1 < 2 * count) copy.to(next, 2);
          to_node(copy, nodes, me, 2);
        }
      });
    }
  }
  return std::move(b).build();
}

/// A double binary tree on every rail; see all_reduce_double_tree. Lanes of their own keep what waits for one
/// tree from holding up the other one, whose inner ranks are the first one's leaves.
Schedule all_reduce_hierarchical_tree(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical_tree", Collective::all_reduce, ranks, 2 * node_size, 8);
  for (int tree = 0; tree < 2; ++tree) {
    const int up = 2 * tree;  // channels between nodes; within a node, `tree` and `spread`
    const int down = up + 1;
    const int spread = 2 + tree;
    const int give = 4 * tree;  // lanes
    const int reduce = give + 1;
    const int hand_down = give + 2;
    const int take = give + 3;
    for (const Rank me : b.ranks()) {
      const int place = wrap(nodes.of(me) - tree, count);
      const auto server_at = [&](int where, int rail) { return nodes.on_rail(where + tree, rail); };
      for_rails(nodes, me, [&](int rail, Rank server) {
        const int chunk = 2 * rail + tree;
        if (server != me) {
          b.at(me, give).fold(in(chunk)).to(server, tree);
          b.at(me, take).store(out(chunk)).from(server, spread);
          return;
        }
        const auto children = tree_children(place, count);
        const Rank parent = place == 0 ? -1 : server_at(tree_parent(place, count), rail);
        Builder::At sum = b.at(me, reduce);
        fold_node(sum, nodes, me, chunk, tree);
        for (const int child : children) sum.from(server_at(child, rail), up);
        if (place != 0) sum.to(parent, up);
        Builder::At result = place == 0 ? sum.complete() : b.at(me, hand_down).from(parent, down);
        result.store(out(chunk));
        for (const int child : children) result.to(server_at(child, rail), down);
        to_node(result, nodes, me, spread);
      });
    }
  }
  return std::move(b).build();
}

/// A ring on every rail: block (c, rail) starts at node c + 1 and is complete at node c.
Schedule reduce_scatter_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::reduce_scatter, ranks, ranks, 2);
  b.credits(2);
  for (const Rank me : b.ranks(nodes.period())) {
    const int node = nodes.of(me);
    for (int hop = 1; hop <= count; ++hop) {
      const int goal = wrap(node - (hop % count), count);
      for_rails(nodes, me, [&](int rail, Rank server) {
        if (rail >= nodes.size_of(goal)) return;
        const int block = nodes.first(goal) + rail;
        if (server != me) {
          b.at(me, 0).fold(in(block)).to(server);
          return;
        }
        Builder::At sum = b.at(me, 1);
        if (hop > 1) sum.from(nodes.on_rail(node - 1, rail));
        fold_node(sum, nodes, me, block);
        if (hop < count) sum.to(nodes.on_rail(node + 1, rail));
        if (hop == count) sum.complete().store(out(0));
      });
    }
  }
  return std::move(b).build();
}

/// A ring on every rail; every hop also gives the block to the neighbours.
Schedule all_gather_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::all_gather, ranks, ranks, 2);
  b.credits(2);
  for (const Rank me : b.ranks(nodes.period())) {
    const int node = nodes.of(me);
    for (int hop = 0; hop < count; ++hop) {
      const int source = wrap(node - hop, count);
      for_rails(nodes, me, [&](int rail, Rank server) {
        if (rail >= nodes.size_of(source)) return;
        const int block = nodes.first(source) + rail;
        if (server != me) {
          b.at(me, 1).store(out(block)).from(server);
          return;
        }
        Builder::At step = b.at(me, 0).store(out(block));
        hop == 0 ? step.fold(in(0)) : step.from(nodes.on_rail(node - 1, rail));
        if (hop + 1 < count) step.to(nodes.on_rail(node + 1, rail));
        to_node(step, nodes, me, 0);
      });
    }
  }
  return std::move(b).build();
}

/// Two steps: to the node of the destination, on the own rail, all its ranks' blocks in one message; there
/// they are handed out. A rank sends to nodes - 1 others outside its node instead of all their ranks (PXN of
/// NCCL 2.12 has the same two steps in the other order).
Schedule all_to_all_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::all_to_all, ranks, ranks, 3, node_size);
  for (const Rank me : b.ranks(nodes.period())) {
    const int node = nodes.of(me);
    const int neighbours = nodes.size_of(node);
    for (int round = 0; round < count; ++round) {
      const int goal = (node + round) % count;
      const int source = wrap(node - round, count);
      if (round > 0) {
        b.at(me, 0)
            .fold(in(nodes.first(goal), nodes.size_of(goal)))
            .to(nodes.on_rail(goal, me - nodes.first(node)), 0, nodes.size_of(goal));
      }
      for_rails(nodes, me, [&](int rail, Rank relay) {
        if (rail >= nodes.size_of(source)) return;
        const Rank from = nodes.first(source) + rail;
        if (relay != me) {
          b.at(me, 2).store(out(from)).from(relay, 1);
          return;
        }
        if (round > 0) b.at(me, 1).store(scratch(0, neighbours)).from(from, 0, neighbours);
        for (int i = 0; i < neighbours; ++i) {
          const Rank to = nodes.neighbour(me, i);
          Builder::At give = b.at(me, 1).fold(round > 0 ? scratch(to - nodes.first(node)) : in(to));
          to == me ? give.store(out(from)) : give.to(to, 1);
        }
      });
    }
  }
  return std::move(b).build();
}

}  // namespace tutti::make
