#include "simulation/quotient.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <tutti/error.hpp>

#include "collectives/partial_build.hpp"
#include "simulation/ends.hpp"

namespace tutti::simulation {

namespace {

constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

// Refining by one more round tells every two ranks apart that a longer way tells apart. Algorithms are
// shallow; where this is not enough (a chain of a thousand ranks), everybody is simulated.
constexpr int most_rounds = 128;

class Refinement {
 public:
  explicit Refinement(const Network& network)
      : network_(network), ranks_(at(network.ranks)), colours_(at(network.ranks)) {}

  void see(Rank rank, int lane, const Step& step) {
    One& one = ranks_[at(rank)];
    std::uint64_t& h = one.lanes[at(lane)];
    h = mix(h, step.complete ? 3 : 5);
    for (const Operand& o : step.sources) h = mix(h, seen(rank, lane, o, one.in));
    h = mix(h, 7);
    for (const Operand& o : step.sinks) h = mix(h, seen(rank, lane, o, one.out));
  }

  /// False when the partition is still not stable after `most_rounds`.
  bool run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (const std::uint64_t h : ranks_[r].lanes) colours_[r] = mix(colours_[r], h);
    std::size_t known = 0;
    for (int round = 0; round < most_rounds; ++round) {
      auto sorted = colours_;
      std::sort(sorted.begin(), sorted.end());
      const auto now = static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
      colour_links();
      if (now == known) return true;
      known = now;
      refine();
    }
    return false;
  }

  Quotient quotient() {
    Quotient q;
    std::unordered_map<std::uint64_t, int> kinds;
    for (Rank r = 0; r < network_.ranks; ++r) {
      const auto [kind, added] = kinds.try_emplace(colours_[at(r)], static_cast<int>(q.members.size()));
      if (added) {
        q.representatives.push_back(r);
        q.members.push_back(0);
        q.peers.push_back(peers(r));
      }
      ++q.members[at(kind->second)];
    }
    find_fifos(q);
    return q;
  }

 private:
  struct One {
    std::array<std::uint64_t, max_lanes> lanes{};
    Ends in, out;
  };

  static std::uint64_t seen(Rank rank, int lane, const Operand& o, Ends& ends) {
    if (o.kind == Operand::Kind::message)
      return mix(ends.number(end_of(o.rank, o.channel), lane), static_cast<std::uint64_t>(o.count) + 11);
    if (o.rank >= 0 && o.rank != rank)
      throw Error(ErrorCode::unsupported,
                  "schedules that touch other ranks' memory are simulated rank by rank only");
    return mix(static_cast<std::uint64_t>(o.space) + 1, static_cast<std::uint64_t>(o.count));
  }

  [[nodiscard]] std::uint64_t fifo_colour(Rank from, Rank to, int channel, const Route& route) const {
    std::uint64_t h = mix(colours_[at(from)], ranks_[at(from)].out.number(end_of(to, channel)));
    h = mix(mix(h, colours_[at(to)]), ranks_[at(to)].in.number(end_of(from, channel)));
    return mix(h, static_cast<std::uint64_t>(route.cost));
  }

  template <typename Each>
  void for_fifos_from(Rank rank, const Each& each) const {
    for (const auto& lane : ranks_[at(rank)].out.lanes())
      for (const End end : lane) each(peer_of(end), channel_of(end));
  }

  void colour_links() {
    link_colours_.assign(network_.bandwidth.size(), 0);
    for (Rank r = 0; r < network_.ranks; ++r)
      for_fifos_from(r, [&](Rank to, int channel) {
        const Route route = network_.route(r, to);
        const std::uint64_t h = fifo_colour(r, to, channel, route);
        for (int i = 0; i < route.hops; ++i)
          link_colours_[at(route.links[at(i)])] += mix(h, static_cast<std::uint64_t>(i) + 1);
      });
    for (std::size_t l = 0; l < link_colours_.size(); ++l)
      link_colours_[l] = mix(link_colours_[l], static_cast<std::uint64_t>(network_.bandwidth[l]));
  }

  void refine() {
    std::vector<std::uint64_t> next = colours_;
    const auto along = [&](std::uint64_t& h, Rank from, Rank to, int channel) {
      const Route route = network_.route(from, to);
      h = mix(h, fifo_colour(from, to, channel, route));
      for (int i = 0; i < route.hops; ++i) h = mix(h, link_colours_[at(route.links[at(i)])]);
    };
    for (Rank r = 0; r < network_.ranks; ++r) {
      std::uint64_t& h = next[at(r)];
      for_fifos_from(r, [&](Rank to, int channel) { along(h, r, to, channel); });
      for (const auto& lane : ranks_[at(r)].in.lanes())
        for (const End end : lane) along(h, peer_of(end), r, channel_of(end));
    }
    colours_ = std::move(next);
  }

  [[nodiscard]] int peers(Rank rank) const {
    std::vector<Rank> all;
    for (const Ends* ends : {&ranks_[at(rank)].in, &ranks_[at(rank)].out})
      for (const auto& lane : ends->lanes())
        for (const End end : lane)
          if (network_.costs[at(network_.route(rank, peer_of(end)).cost)].network)
            all.push_back(peer_of(end));
    std::sort(all.begin(), all.end());
    return static_cast<int>(std::unique(all.begin(), all.end()) - all.begin());
  }

  void find_fifos(Quotient& q) {
    std::unordered_map<std::uint64_t, int> links;  // by colour
    std::unordered_map<std::uint64_t, int> fifos;
    std::vector<int> link_of(link_colours_.size(), -1);
    const auto link_kind = [&](int link) {
      int& kind = link_of[at(link)];
      if (kind >= 0) return kind;
      const auto [found, added] =
          links.try_emplace(link_colours_[at(link)], static_cast<int>(q.links.size()));
      if (added) {
        q.links.push_back(link);
        q.links_alike.push_back(0);
      }
      ++q.links_alike[at(found->second)];
      return kind = found->second;
    };
    for (const Rank r : q.representatives)
      for_fifos_from(r, [&](Rank to, int channel) {
        const Route route = network_.route(r, to);
        fifos.emplace(fifo_colour(r, to, channel, route), static_cast<int>(q.fifos.size()));
        q.fifos.push_back({r, to, channel, route.cost, {}});
      });
    // How many of each kind cross the one link that stands for its kind.
    for (Rank r = 0; r < network_.ranks; ++r)
      for_fifos_from(r, [&](Rank to, int channel) {
        const Route route = network_.route(r, to);
        for (int i = 0; i < route.hops; ++i) {
          const int link = route.links[at(i)];
          const int kind = link_kind(link);
          if (q.links[at(kind)] != link) continue;
          auto& crossings = q.fifos[at(fifos.at(fifo_colour(r, to, channel, route)))].crossings;
          const auto known = std::find_if(crossings.begin(), crossings.end(),
                                          [&](const Crossing& c) { return c.link == kind; });
          if (known == crossings.end())
            crossings.push_back({kind, 1});
          else
            ++known->weight;
        }
      });
    q.kind = [colour = std::make_shared<Refinement>(std::move(*this)), fifos = std::move(fifos)](
                 Quotient&, Rank from, Rank to, int channel) {
      return fifos.at(colour->fifo_colour(from, to, channel, colour->network_.route(from, to)));
    };
  }

  const Network& network_;
  std::vector<One> ranks_;
  std::vector<std::uint64_t> colours_, link_colours_;
};

}  // namespace

Quotient everybody(const Network& network) {
  Quotient q;
  for (Rank r = 0; r < network.ranks; ++r) q.representatives.push_back(r);
  q.members.assign(at(network.ranks), 1);
  for (std::size_t l = 0; l < network.bandwidth.size(); ++l) q.links.push_back(static_cast<int>(l));
  q.links_alike.assign(network.bandwidth.size(), 1);
  q.kind = [&network, known = std::map<std::tuple<Rank, Rank, int>, int>()](Quotient& self, Rank from,
                                                                            Rank to, int channel) mutable {
    const auto [found, added] = known.try_emplace({from, to, channel}, static_cast<int>(self.fifos.size()));
    if (added) {
      const Route route = network.route(from, to);
      FifoKind& fifo = self.fifos.emplace_back(FifoKind{from, to, channel, route.cost, {}});
      for (int i = 0; i < route.hops; ++i) fifo.crossings.push_back({route.links[at(i)], 1});
    }
    return found->second;
  };
  return q;
}

Quotient kinds(const Network& network, const Make& make) {
  Refinement refinement(network);
  {
    const PartialBuild build(
        [](Rank) { return false; },
        [&](Rank rank, int lane, const Step& step) { refinement.see(rank, lane, step); });
    make();
  }
  return refinement.run() ? refinement.quotient() : everybody(network);
}

}  // namespace tutti::simulation
