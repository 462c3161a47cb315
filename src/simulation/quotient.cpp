#include "simulation/quotient.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <tutti/error.hpp>

#include "base/hash.hpp"
#include "collectives/partial_build.hpp"
#include "simulation/at.hpp"
#include "simulation/ends.hpp"

namespace tutti::simulation {

namespace {

// Refining by one more round tells every two ranks apart that a longer way tells apart. Algorithms are
// shallow; where this is not enough (a chain of a thousand ranks), everybody is simulated.
constexpr int most_rounds = 128;

// What the steps of every rank are, but for whom they concern, and its FIFOs in the order of first use.
class Habits {
 public:
  Habits(int ranks, std::uint64_t most_fifos) : ranks_(at(ranks)), most_fifos_(most_fifos) {}

  void see(Rank rank, int lane, const Step& step) {
    constexpr std::uint64_t a_fifo = 4;  // uses of it
    used_ += step.sources.size() + step.sinks.size();
    if (used_ / a_fifo > most_fifos_) throw TooManyFifos();
    One& one = ranks_[at(rank)];
    std::uint64_t& h = one.lanes[at(lane)];
    h = mix(h, step.complete ? 3 : 5);
    for (const Operand& o : step.sources) h = mix(h, seen(rank, lane, o, one.in));
    h = mix(h, 7);
    for (const Operand& o : step.sinks) h = mix(h, seen(rank, lane, o, one.out));
  }

  /// Only the first `period` ranks were seen, and the others do as they do; 0: all were seen.
  void repeat(int period) { period_ = period; }

  [[nodiscard]] std::uint64_t steps(Rank rank) const {
    std::uint64_t all = 0;
    for (const std::uint64_t h : ranks_[at(seen_as(rank))].lanes) all = mix(all, h);
    return all;
  }
  /// Which of the ends of its sender and its receiver a FIFO has.
  [[nodiscard]] std::uint64_t ends(Rank from, Rank to, int channel) const {
    const Rank sender = seen_as(from), receiver = seen_as(to);
    return mix(mix(1, ranks_[at(sender)].out.number(end_of(turned(to, sender - from), channel))),
               ranks_[at(receiver)].in.number(end_of(turned(from, receiver - to), channel)));
  }
  [[nodiscard]] std::size_t count_from(Rank rank) const {
    std::size_t count = 0;
    for (const auto& lane : ranks_[at(seen_as(rank))].out.lanes()) count += lane.size();
    return count;
  }
  /// Calls `each(to, channel)`.
  template <typename Each>
  void for_fifos_from(Rank rank, const Each& each) const {
    const Rank seen = seen_as(rank);
    for (const auto& lane : ranks_[at(seen)].out.lanes())
      for (const End end : lane) each(turned(peer_of(end), rank - seen), channel_of(end));
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
  [[nodiscard]] Rank seen_as(Rank rank) const { return period_ == 0 ? rank : rank % period_; }
  [[nodiscard]] Rank turned(Rank rank, int by) const {
    const int count = static_cast<int>(ranks_.size());
    const Rank sum = rank + by;
    return sum < 0 ? sum + count : sum < count ? sum : sum - count;
  }

  std::vector<One> ranks_;
  std::uint64_t most_fifos_, used_ = 0;
  int period_ = 0;
};

class Refinement {
 public:
  Refinement(const Network& network, const Habits& habits, std::uint64_t most_fifos)
      : network_(network), colours_(at(network.ranks)) {
    std::size_t count = 0;
    for (Rank r = 0; r < network.ranks; ++r) {
      colours_[at(r)] = habits.steps(r);
      count += habits.count_from(r);
    }
    if (count > most_fifos) throw TooManyFifos();
    fifos_.reserve(count + 1);
    for (Rank r = 0; r < network.ranks; ++r)
      habits.for_fifos_from(r, [&](Rank to, int channel) { add(r, to, channel, habits); });
    fifos_.push_back({.first_link = links_.size()});
  }

  /// False when the partition is still not stable after `most_rounds`.
  bool run() {
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

  [[nodiscard]] Quotient quotient() const {
    Quotient q;
    std::unordered_map<std::uint64_t, int> kinds;
    std::vector<int> kind_of(colours_.size(), -1);  // of representatives
    for (Rank r = 0; r < network_.ranks; ++r) {
      const auto [kind, added] = kinds.try_emplace(colours_[at(r)], static_cast<int>(q.members.size()));
      if (added) {
        kind_of[at(r)] = kind->second;
        q.representatives.push_back(r);
        q.members.push_back(0);
      }
      ++q.members[at(kind->second)];
      q.by_rank.push_back(kind->second);
    }
    find_fifos(q, kind_of);
    find_peers(q, kind_of);
    return q;
  }

 private:
  struct Fifo {
    Rank from = 0, to = 0;
    std::uint16_t channel = 0, cost = 0;
    std::uint64_t ends = 0;      ///< and `cost`
    std::size_t first_link = 0;  ///< in links_, up to that of the next FIFO
  };

  void add(Rank from, Rank to, int channel, const Habits& habits) {
    const Route route = network_.route(from, to);
    const auto cost = static_cast<std::uint16_t>(route.cost);
    fifos_.push_back({from, to, static_cast<std::uint16_t>(channel), cost,
                      mix(habits.ends(from, to, channel), cost), links_.size()});
    links_.insert(links_.end(), route.links.begin(), route.links.begin() + route.hops);
  }

  template <typename Each>
  void for_fifos(const Each& each) const {
    for (std::size_t f = 0; f + 1 < fifos_.size(); ++f)
      each(fifos_[f],
           std::span(links_).subspan(fifos_[f].first_link, fifos_[f + 1].first_link - fifos_[f].first_link));
  }

  [[nodiscard]] std::uint64_t colour(const Fifo& fifo) const {
    return mix(mix(colours_[at(fifo.from)], fifo.ends), colours_[at(fifo.to)]);
  }

  void colour_links() {
    link_colours_.assign(network_.bandwidth.size(), 0);
    for_fifos([&](const Fifo& fifo, std::span<const int> links) {
      const std::uint64_t h = colour(fifo);
      for (std::size_t i = 0; i < links.size(); ++i) link_colours_[at(links[i])] += mix(h, i + 1);
    });
    for (std::size_t l = 0; l < link_colours_.size(); ++l)
      link_colours_[l] = mix(link_colours_[l], static_cast<std::uint64_t>(network_.bandwidth[l]));
  }

  // A rank's FIFOs all have different ends, so the sum of their colours says as much as their list.
  void refine() {
    std::vector<std::uint64_t> sums(colours_.size());
    for_fifos([&](const Fifo& fifo, std::span<const int> links) {
      std::uint64_t h = colour(fifo);
      for (const int link : links) h = mix(h, link_colours_[at(link)]);
      sums[at(fifo.from)] += mix(h, 1);
      sums[at(fifo.to)] += mix(h, 2);
    });
    for (std::size_t r = 0; r < colours_.size(); ++r) colours_[r] = mix(colours_[r], sums[r]);
  }

  void find_peers(Quotient& q, const std::vector<int>& kind_of) const {
    std::vector<std::vector<Rank>> all(q.representatives.size());
    for_fifos([&](const Fifo& fifo, std::span<const int> /*links*/) {
      if (!network_.costs[fifo.cost].network) return;
      if (const int kind = kind_of[at(fifo.from)]; kind >= 0) all[at(kind)].push_back(fifo.to);
      if (const int kind = kind_of[at(fifo.to)]; kind >= 0) all[at(kind)].push_back(fifo.from);
    });
    for (auto& peers : all) {
      std::sort(peers.begin(), peers.end());
      q.peers.push_back(static_cast<int>(std::unique(peers.begin(), peers.end()) - peers.begin()));
    }
  }

  void find_fifos(Quotient& q, const std::vector<int>& kind_of) const {
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
    for_fifos([&](const Fifo& fifo, std::span<const int> /*links*/) {
      if (kind_of[at(fifo.from)] < 0) return;
      fifos.emplace(colour(fifo), static_cast<int>(q.fifos.size()));
      q.fifos.push_back({fifo.from, fifo.to, fifo.channel, fifo.cost, {}});
    });
    // How many of each kind cross the one link that stands for its kind.
    std::unordered_map<std::uint64_t, int> known;  // FIFOs of representatives
    for_fifos([&](const Fifo& fifo, std::span<const int> crossed) {
      if (kind_of[at(fifo.from)] >= 0 || kind_of[at(fifo.to)] >= 0)
        known.emplace(key(fifo.from, fifo.to, fifo.channel), fifos.at(colour(fifo)));
      for (const int link : crossed) {
        const int kind = link_kind(link);
        if (q.links[at(kind)] != link) continue;
        auto& crossings = q.fifos[at(fifos.at(colour(fifo)))].crossings;
        const auto there = std::find_if(crossings.begin(), crossings.end(),
                                        [&](const Crossing& c) { return c.link == kind; });
        if (there == crossings.end())
          crossings.push_back({kind, 1});
        else
          ++there->weight;
      }
    });
    q.kind = [known = std::move(known)](Quotient&, Rank from, Rank to, int channel) {
      return known.at(key(from, to, channel));
    };
  }

  static std::uint64_t key(Rank from, Rank to, int channel) {
    return static_cast<std::uint64_t>(from) << 32 | end_of(to, channel);
  }

  const Network& network_;
  std::vector<Fifo> fifos_;  ///< and one that marks the end of links_
  std::vector<int> links_;
  std::vector<std::uint64_t> colours_, link_colours_;
};

}  // namespace

Quotient everybody(const Network& network) {
  Quotient q;
  for (Rank r = 0; r < network.ranks; ++r) q.representatives.push_back(r);
  q.members.assign(at(network.ranks), 1);
  q.by_rank = q.representatives;
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

Quotient kinds(const Network& network, const Make& make, std::uint64_t most_fifos) {
  Habits habits(network.ranks, most_fifos);
  {
    const PartialBuild build([&](Rank rank, int lane, const Step& step) { habits.see(rank, lane, step); });
    make();
    habits.repeat(build.period());
  }
  Refinement refinement(network, habits, most_fifos);
  return refinement.run() ? refinement.quotient() : everybody(network);
}

}  // namespace tutti::simulation
