#include "simulation/flows.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/hash.hpp"
#include "simulation/at.hpp"

namespace tutti::simulation {

namespace {
constexpr double never = std::numeric_limits<double>::infinity();
}  // namespace

Flows::Flows(std::vector<double> bandwidth, double incast) : incast_(incast), links_(bandwidth.size()) {
  for (std::size_t l = 0; l < bandwidth.size(); ++l) {
    links_[l].bandwidth = bandwidth[l];
    links_[l].level = never;
  }
}

int Flows::add_way(const std::vector<Crossing>& crossings) {
  assert(counts_as_.empty());
  Way& way = ways_.emplace_back();
  way.first = crossings_.size();
  crossings_.insert(crossings_.end(), crossings.begin(), crossings.end());
  way.last = crossings_.size();
  return static_cast<int>(ways_.size()) - 1;
}

void Flows::join_links() {
  // The sum of hashes of its ways stands for a link's set of them.
  std::vector<std::uint64_t> crossed(links_.size());
  for (std::size_t w = 0; w < ways_.size(); ++w)
    for (const Crossing& c : crossings(ways_[w]))
      crossed[at(c.link)] += splitmix64(splitmix64(w) + std::bit_cast<std::uint64_t>(c.weight));
  std::unordered_map<std::uint64_t, int> narrowest;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    int& one = narrowest.try_emplace(crossed[l], static_cast<int>(l)).first->second;
    if (links_[l].bandwidth < links_[at(one)].bandwidth) one = static_cast<int>(l);
  }
  counts_as_.reserve(links_.size());
  for (const std::uint64_t ways : crossed) counts_as_.push_back(narrowest.at(ways));
  for (Way& way : ways_) {
    const auto first = crossings_.begin() + static_cast<std::ptrdiff_t>(way.first),
               last = crossings_.begin() + static_cast<std::ptrdiff_t>(way.last);
    const auto left =
        std::remove_if(first, last, [&](const Crossing& c) { return counts_as_[at(c.link)] != c.link; });
    way.last = static_cast<std::size_t>(left - crossings_.begin());
  }
}

double Flows::busy(int link) const {
  return links_[at(counts_as_.empty() ? link : counts_as_[at(link)])].busy;
}

void Flows::touch(int link) {
  if (std::exchange(links_[at(link)].dirty, true)) return;
  dirty_.push_back(link);
}

void Flows::begin(int way, double bytes, double now) {
  Way& flow = ways_[at(way)];
  assert(!flow.active && !crossings(flow).empty());
  flow.active = true;
  flow.left = bytes;
  flow.rate = 0;
  flow.at = now;
  flow.done = never;
  heap_.push_back(way);
  flow.place = heap_.size() - 1;
  for (const Crossing& c : crossings(flow)) {
    Link& link = links_[at(c.link)];
    if (link.active.empty()) link.since = now;
    link.active.push_back(way);
    link.weight += c.weight;
    touch(c.link);
  }
}

double Flows::next(double now) {
  settle(now);
  if (heap_.empty()) return never;
  return ways_[at(heap_[0])].done;
}

void Flows::end(double now, std::vector<int>& ended) {
  while (!heap_.empty() && ways_[at(heap_[0])].done <= now) {
    const int way = heap_[0];
    Way& flow = ways_[at(way)];
    drop(way);
    flow.active = false;
    for (const Crossing& c : crossings(flow)) {
      Link& link = links_[at(c.link)];
      const auto found = std::find(link.active.begin(), link.active.end(), way);
      *found = link.active.back();
      link.active.pop_back();
      link.weight = link.active.empty() ? 0 : link.weight - c.weight;
      if (link.active.empty()) link.busy += now - link.since;
      touch(c.link);
    }
    ended.push_back(way);
  }
}

void Flows::settle(double now) {
  // What changes more than a share of the links would come back to each of them several times.
  constexpr std::size_t few = 16, share = 8;
  const std::size_t most = few + links_.size() / share;
  changed_.clear();
  std::size_t seen = 0;
  for (; seen < dirty_.size() && dirty_.size() <= most; ++seen) {
    const int index = dirty_[seen];
    links_[at(index)].dirty = false;
    if (!pass_on(index, level(index))) continue;
    for (const int way : links_[at(index)].active)
      for (const Crossing& c : crossings(ways_[at(way)]))
        if (c.link != index) touch(c.link);
  }
  const bool settled = seen == dirty_.size();
  for (const int link : dirty_) links_[at(link)].dirty = false;
  dirty_.clear();
  if (!settled) fill();
  effort_ += changed_.size();
  for (const int way : changed_) set_rate(way, now);
}

bool Flows::pass_on(int index, double now_level) {
  // Smaller changes are not passed on: their effects fade with distance, and a network of ten thousand nodes
  // would be walked through for each; until they add up to more.
  constexpr double tolerance = 1e-6;
  Link& link = links_[at(index)];
  const double before = link.level;
  const bool same =
      now_level == before || (before != never && std::abs(now_level - before) <= tolerance * before);
  if (!same) link.level = now_level;
  for (const int way : link.active) {
    Way& flow = ways_[at(way)];
    if (same && flow.rate != 0) continue;
    if (!std::exchange(flow.changed, true)) changed_.push_back(way);
  }
  return !same;
}

// The link that is full first decides for its flows, then the next one for those that are left.
void Flows::fill() {
  ++fills_;
  effort_ += 2 * heap_.size();
  filling_.assign(links_.size(), {});
  using Full = std::pair<double, int>;  // at this level of its flows, or later
  std::vector<Full> first;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    const double weight = links_[l].weight;
    if (weight == 0) continue;
    filling_[l] = {.room = room(links_[l], weight), .weight = weight};
    first.emplace_back(filling_[l].room / weight, static_cast<int>(l));
  }
  std::priority_queue<Full, std::vector<Full>, std::greater<>> next(std::greater<>(), std::move(first));
  while (!next.empty()) {
    const auto [level, link] = next.top();
    next.pop();
    const Filling& full = filling_[at(link)];
    if (full.weight == 0) continue;
    if (const double now = full.room / full.weight; now > level)
      next.emplace(now, link);
    else
      decide(link, level);
  }
  for (std::size_t l = 0; l < links_.size(); ++l)
    if (!links_[l].active.empty()) pass_on(static_cast<int>(l), filling_[l].fastest + filling_[l].room);
}

void Flows::decide(int full, double level) {
  for (const int way : links_[at(full)].active) {
    if (std::exchange(ways_[at(way)].decided, fills_) == fills_) continue;
    for (const Crossing& c : crossings(ways_[at(way)])) {
      Filling& link = filling_[at(c.link)];
      link.room = std::max(0.0, link.room - c.weight * level);
      link.weight -= c.weight;
      link.fastest = level;
    }
  }
}

double Flows::room(const Link& link, double weight) const {
  return link.bandwidth / (1 + incast_ * std::max(0.0, weight - 1));
}

// What no flow on a link exceeds: filled with the flows that other links hold below it, the rest is shared.
double Flows::level(int index) {
  const Link& link = links_[at(index)];
  effort_ += link.active.size();
  demands_.clear();
  double weight = 0;
  for (const int way : link.active) {
    std::pair<double, double> demand{never, 0};
    for (const Crossing& c : crossings(ways_[at(way)]))
      if (c.link == index)
        demand.second = c.weight;
      else
        demand.first = std::min(demand.first, links_[at(c.link)].level);
    demands_.push_back(demand);
    weight += demand.second;
  }
  std::sort(demands_.begin(), demands_.end());
  double most = 0;
  double room = this->room(link, weight);
  for (const auto& [demand, each] : demands_) {
    if (demand * weight >= room) return room / weight;
    room -= demand * each;
    weight -= each;
    most = demand;
  }
  // Not full: as fast as the fastest of its flows with all that is left. No jump where it becomes full.
  return most + room;
}

void Flows::set_rate(int way, double now) {
  Way& flow = ways_[at(way)];
  flow.changed = false;
  double rate = never;
  for (const Crossing& c : crossings(flow)) rate = std::min(rate, links_[at(c.link)].level);
  assert(rate < never);
  if (flow.rate == rate) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.at));
  flow.at = now;
  flow.rate = rate;
  flow.done = now + flow.left / rate;
  lift(flow.place);
  sink(flow.place);
}

double Flows::key(std::size_t place) const { return ways_[at(heap_[place])].done; }

void Flows::put(std::size_t place, int way) {
  heap_[place] = way;
  ways_[at(way)].place = place;
}

void Flows::lift(std::size_t place) {
  for (; place > 0 && key(place) < key((place - 1) / 2); place = (place - 1) / 2) {
    const int above = heap_[(place - 1) / 2];
    put((place - 1) / 2, heap_[place]);
    put(place, above);
  }
}

void Flows::sink(std::size_t place) {
  while (true) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) return;
    if (child + 1 < heap_.size() && key(child + 1) < key(child)) ++child;
    if (key(place) <= key(child)) return;
    const int below = heap_[child];
    put(child, heap_[place]);
    put(place, below);
    place = child;
  }
}

void Flows::drop(int way) {
  const std::size_t place = ways_[at(way)].place;
  const int last = heap_.back();
  heap_.pop_back();
  if (last == way) return;
  put(place, last);
  lift(place);
  sink(ways_[at(last)].place);
}

}  // namespace tutti::simulation
