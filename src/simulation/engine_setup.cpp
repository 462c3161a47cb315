// What an engine starts from: FIFOs, whose lanes are at their ends, and what messages cost on them.
#include <algorithm>
#include <limits>

#include "simulation/at.hpp"
#include "simulation/engine.hpp"

namespace tutti::simulation {

namespace {

using execution::Instruction;

std::vector<double> bandwidth_of(const Network& network, const Quotient& quotient) {
  std::vector<double> bandwidth;
  for (const int link : quotient.links) bandwidth.push_back(network.bandwidth[at(link)]);
  return bandwidth;
}

}  // namespace

Engine::Engine(const Network& network, const Quotient& quotient, const std::vector<Actor>& actors, int calls)
    : network_(network),
      quotient_(quotient),
      actors_(actors),
      flows_(bandwidth_of(network, quotient), network.incast),
      states_(actors.size()),
      counts_(actors.size()),
      link_bytes_(quotient.links.size()),
      calls_(calls),
      last_(at(calls)) {
  for (std::size_t a = 0; a < actors.size(); ++a) {
    counts_[a].scratch_bytes = actors[a].program.scratch_bytes;
    counts_[a].lanes = static_cast<int>(actors[a].program.lanes.size());
    states_[a].first_lane = static_cast<int>(lanes_.size());
    states_[a].lanes = counts_[a].lanes;
    for (const auto& parts : actors[a].program.lanes)
      lanes_.push_back({.actor = static_cast<int>(a), .parts = &parts});
  }
  make_fifos();
  add_queue_pairs(find_ends());
}

void Engine::make_fifos() {
  for (const FifoKind& kind : quotient_.fifos) {
    Fifo& fifo = fifos_.emplace_back();
    fifo.cost = &network_.costs[at(kind.cost)];
    fifo.gap = fifo.cost->gap;
    fifo.narrowest = std::numeric_limits<double>::infinity();
    for (const Crossing& c : kind.crossings)
      fifo.narrowest = std::min(fifo.narrowest, network_.bandwidth[at(quotient_.links[at(c.link)])]);
    if (!kind.crossings.empty()) {
      fifo.way = flows_.add_way(kind.crossings);
      fifo_of_way_.push_back(static_cast<int>(fifos_.size()) - 1);
    }
  }
  flows_.join_links();
}

std::vector<std::vector<Rank>> Engine::find_ends() {
  std::vector<std::vector<Rank>> remote(actors_.size());
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const auto a = at(lanes_[l].actor);
    const Actor& actor = actors_[a];
    const auto end = [&](int fifo, int Fifo::*side) {
      if (fifos_[at(fifo)].*side >= 0) return;
      fifos_[at(fifo)].*side = static_cast<int>(l);
      const FifoKind& kind = quotient_.fifos[at(fifo)];
      if (fifos_[at(fifo)].cost->network) remote[a].push_back(kind.from == actor.rank ? kind.to : kind.from);
    };
    for (const execution::Part& part : *lanes_[l].parts)
      for (const Instruction& step : part.instructions) {
        for (std::uint32_t i = 0; i < step.sinks; ++i)
          for (const int fifo : actor.fifos(step.first_sink + i)) end(fifo, &Fifo::sender);
        for (std::uint32_t i = 0; i < step.sources; ++i)
          if (const int fifo = actor.sources[step.first_source + i]; fifo >= 0) end(fifo, &Fifo::receiver);
      }
  }
  return remote;
}

void Engine::add_queue_pairs(std::vector<std::vector<Rank>> peers) {
  for (std::size_t a = 0; a < actors_.size(); ++a) {
    std::sort(peers[a].begin(), peers[a].end());
    const auto last = std::unique(peers[a].begin(), peers[a].end());
    counts_[a].queue_pairs =
        quotient_.peers.empty() ? static_cast<int>(last - peers[a].begin()) : quotient_.peers[a];
  }
  if (network_.queue_pairs_cached < std::numeric_limits<double>::infinity()) make_misses_dear();
}

void Engine::make_misses_dear() {
  const auto by_adapter = queue_pairs_by_adapter(network_, quotient_.by_rank, counts_);
  for (Fifo& fifo : fifos_) {
    if (fifo.sender < 0 || !fifo.cost->network) continue;
    const auto a = at(lanes_[at(fifo.sender)].actor);
    const int pairs =
        network_.adapter ? by_adapter.at(network_.adapter(actors_[a].rank)) : counts_[a].queue_pairs;
    if (pairs > network_.queue_pairs_cached)
      fifo.gap += network_.queue_pair_miss * (1 - network_.queue_pairs_cached / pairs);
  }
}

}  // namespace tutti::simulation
