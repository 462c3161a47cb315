// Algorithms for ranks in nodes: between nodes, data stays on its rail, so that every rank's adapter talks to
// one adapter a node. Phases are fused where they meet: what a rail's step sends on is folded from the
// neighbours' messages, and what it receives goes to the neighbours, in one step.
#include <optional>
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

/// To the next node of the ring, unless that has it, since it has come round in `hop` hops; and to the own
/// node.
void give_on(Builder::At step, const Nodes& nodes, Rank self, int rail, int hop, int channel) {
  if (hop + 1 < nodes.count()) step.to(nodes.on_rail(nodes.of(self) + 1, rail), channel);
  to_node(step, nodes, self, channel);
}

/// Hop 1 ... count() of a ring that reduces: the server of a rail folds what comes round and its node's
/// `chunk`, which the others give it, and sends it on before the last hop. The server's step.
std::optional<Builder::At> reduce_hop(Builder& b, const Nodes& nodes, Rank self, Rank server, int rail,
                                      int hop, int chunk) {
  if (server != self) {
    b.at(self, 0).fold(in(chunk)).to(server);
    return std::nullopt;
  }
  Builder::At sum = b.at(self, 1);
  if (hop > 1) sum.from(nodes.on_rail(nodes.of(self) - 1, rail));
  fold_node(sum, nodes, self, chunk);
  if (hop < nodes.count()) sum.to(nodes.on_rail(nodes.of(self) + 1, rail));
  return sum;
}

/// Where a ring that gathers runs.
struct Gathering {
  int lane;          ///< of servers; that of the others is the next one
  int first, later;  ///< channels of hop 0 and of the others
};

/// Hop 0 ... count() - 1 of a ring that gathers: what comes round is stored by the server of a rail, and
/// given on. In hop 0 it has it and gives it on by itself.
void gather_hop(Builder& b, const Nodes& nodes, Rank self, Rank server, int rail, int hop, Operand result,
                const Gathering& where) {
  const auto channel = [&](int of) { return of == 0 ? where.first : where.later; };
  if (server != self) {
    b.at(self, where.lane + 1).store(result).from(server, channel(hop));
  } else if (hop > 0) {
    Builder::At copy = b.at(self, where.lane).store(result);
    copy.from(nodes.on_rail(nodes.of(self) - 1, rail), channel(hop - 1));
    give_on(copy, nodes, self, rail, hop, channel(hop));
  }
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
/// more.
Schedule all_reduce_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::all_reduce, ranks, node_size * count, 4);
  b.credits(2);  // a step waits for room and for a message at once, and the ring is a circle
  for (const Rank me : b.ranks(nodes.period())) {
    const auto chunk_of = [&](int rail, int hop) { return rail * count + wrap(nodes.of(me) - hop, count); };
    for (int hop = 1; hop <= count; ++hop)
      for_rails(nodes, me, [&](int rail, Rank server) {
        const int chunk = chunk_of(rail, hop);
        auto sum = reduce_hop(b, nodes, me, server, rail, hop, chunk);
        if (sum && hop == count) give_on(sum->complete().store(out(chunk)), nodes, me, rail, 0, 1);
      });
    for (int hop = 0; hop < count; ++hop)
      for_rails(nodes, me, [&](int rail, Rank server) {
        gather_hop(b, nodes, me, server, rail, hop, out(chunk_of(rail, hop)),
                   {.lane = 2, .first = 1, .later = 2});
      });
  }
  return std::move(b).build();
}

namespace {

/// What a rank does for a rail in the first or second tree. Lanes of their own keep what waits for one tree
/// from holding up the other one, whose inner ranks are the first one's leaves.
void tree_on_rail(Builder& b, const Nodes& nodes, Rank self, Rank server, int rail, int tree) {
  const int up = 2 * tree, down = up + 1;      // channels between nodes
  const int gather = tree, spread = 2 + tree;  // channels within a node
  const int lane = 4 * tree, chunk = 2 * rail + tree, count = nodes.count();
  if (server != self) {
    b.at(self, lane).fold(in(chunk)).to(server, gather);
    b.at(self, lane + 3).store(out(chunk)).from(server, spread);
    return;
  }
  const int place = wrap(nodes.of(self) - tree, count);
  const auto server_at = [&](int where) { return nodes.on_rail(where + tree, rail); };
  const auto children = tree_children(place, count);
  const Rank parent = place == 0 ? -1 : server_at(tree_parent(place, count));
  Builder::At sum = b.at(self, lane + 1);
  fold_node(sum, nodes, self, chunk, gather);
  for (const int child : children) sum.from(server_at(child), up);
  if (place != 0) sum.to(parent, up);
  Builder::At result = place == 0 ? sum.complete() : b.at(self, lane + 2).from(parent, down);
  result.store(out(chunk));
  for (const int child : children) result.to(server_at(child), down);
  to_node(result, nodes, self, spread);
}

}  // namespace

/// A double binary tree on every rail; see all_reduce_double_tree.
Schedule all_reduce_hierarchical_tree(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  Builder b("hierarchical_tree", Collective::all_reduce, ranks, 2 * node_size, 8);
  for (const int tree : {0, 1})
    for (const Rank me : b.ranks())
      for_rails(nodes, me, [&](int rail, Rank server) { tree_on_rail(b, nodes, me, server, rail, tree); });
  return std::move(b).build();
}

/// A ring on every rail: block (c, rail) starts at node c + 1 and is complete at node c.
Schedule reduce_scatter_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::reduce_scatter, ranks, ranks, 2);
  b.credits(2);
  for (const Rank me : b.ranks(nodes.period())) {
    for (int hop = 1; hop <= count; ++hop) {
      const int goal = wrap(nodes.of(me) - hop, count);
      for_rails(nodes, me, [&](int rail, Rank server) {
        if (rail >= nodes.size_of(goal)) return;
        auto sum = reduce_hop(b, nodes, me, server, rail, hop, nodes.first(goal) + rail);
        if (sum && hop == count) sum->complete().store(out(0));
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
    give_on(b.at(me, 0).store(out(me)).fold(in(0)), nodes, me, me - nodes.first(nodes.of(me)), 0, 0);
    for (int hop = 0; hop < count; ++hop) {
      const int source = wrap(nodes.of(me) - hop, count);
      for_rails(nodes, me, [&](int rail, Rank server) {
        if (rail >= nodes.size_of(source)) return;
        gather_hop(b, nodes, me, server, rail, hop, out(nodes.first(source) + rail),
                   {.lane = 0, .first = 0, .later = 0});
      });
    }
  }
  return std::move(b).build();
}

namespace {

/// All blocks for the ranks of a node, on the own rail.
void send_to_node(Builder& b, const Nodes& nodes, Rank self, int node) {
  const int blocks = nodes.size_of(node), rail = self - nodes.first(nodes.of(self));
  b.at(self, 0).fold(in(nodes.first(node), blocks)).to(nodes.on_rail(node, rail), 0, blocks);
}

/// To every rank of the node its block of rank `from`, whose message brings them all; of this rank itself,
/// from its input.
void hand_out(Builder& b, const Nodes& nodes, Rank self, Rank from) {
  const Rank first = nodes.first(nodes.of(self));
  const int neighbours = nodes.size_of(nodes.of(self));
  if (from != self) b.at(self, 1).store(scratch(0, neighbours)).from(from, 0, neighbours);
  for (int i = 0; i < neighbours; ++i) {
    const Rank to = nodes.neighbour(self, i);
    Builder::At give = b.at(self, 1).fold(from != self ? scratch(to - first) : in(to));
    to == self ? give.store(out(from)) : give.to(to, 1);
  }
}

}  // namespace

/// Two steps: to the node of the destination, on the own rail, all its ranks' blocks in one message; there
/// they are handed out. A rank sends to nodes - 1 others outside its node instead of all their ranks (PXN of
/// NCCL 2.12 has the same two steps in the other order).
Schedule all_to_all_hierarchical(int ranks, int node_size) {
  const Nodes nodes{ranks, node_size};
  const int count = nodes.count();
  Builder b("hierarchical", Collective::all_to_all, ranks, ranks, 3, node_size);
  for (const Rank me : b.ranks(nodes.period())) {
    const int node = nodes.of(me);
    for (int round = 0; round < count; ++round) {
      if (round > 0) send_to_node(b, nodes, me, (node + round) % count);
      const int source = wrap(node - round, count);
      for_rails(nodes, me, [&](int rail, Rank relay) {
        if (rail >= nodes.size_of(source)) return;
        const Rank from = nodes.first(source) + rail;
        if (relay == me) return hand_out(b, nodes, me, from);
        b.at(me, 2).store(out(from)).from(relay, 1);
      });
    }
  }
  return std::move(b).build();
}

}  // namespace tutti::make
