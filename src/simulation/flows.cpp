#include "simulation/flows.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

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

int Flows::add_way(std::vector<Crossing> crossings) {
  ways_.push_back({.crossings = std::move(crossings)});
  return static_cast<int>(ways_.size()) - 1;
}

void Flows::touch(int link) {
  if (std::exchange(links_[at(link)].dirty, true)) return;
  dirty_.push_back(link);
}

void Flows::begin(int way, double bytes, double now) {
  Way& flow = ways_[at(way)];
  assert(!flow.active && !flow.crossings.empty());
  flow.active = true;
  flow.left = bytes;
  flow.rate = 0;
  flow.at = now;
  flow.done = never;
  heap_.push_back(way);
  flow.place = heap_.size() - 1;
  for (const Crossing& c : flow.crossings) {
    Link& link = links_[at(c.link)];
    if (link.active.empty()) link.since = now;
    link.active.push_back(way);
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
    for (const Crossing& c : flow.crossings) {
      Link& link = links_[at(c.link)];
      const auto found = std::find(link.active.begin(), link.active.end(), way);
      *found = link.active.back();
      link.active.pop_back();
      if (link.active.empty()) link.busy += now - link.since;
      touch(c.link);
    }
    ended.push_back(way);
  }
}

void Flows::settle(double now) {
  // Smaller changes are not passed on: their effects fade with distance, and a network of ten thousand nodes
  // would be walked through for each; until they add up to more.
  constexpr double tolerance = 1e-6;
  // Far more than ever seen: a circle of roundings must not become a hang.
  const std::size_t most = 1000 + 100 * links_.size();
  changed_.clear();
  for (std::size_t i = 0; i < dirty_.size() && i < most; ++i) {
    const int index = dirty_[i];
    Link& link = links_[at(index)];
    link.dirty = false;
    const double now_level = level(index), before = link.level;
    const bool same =
        now_level == before || (before != never && std::abs(now_level - before) <= tolerance * before);
    if (!same) link.level = now_level;
    for (const int way : link.active) {
      Way& flow = ways_[at(way)];
      if (same && flow.rate != 0) continue;
      if (!std::exchange(flow.changed, true)) changed_.push_back(way);
      if (same) continue;
      for (const Crossing& c : flow.crossings)
        if (c.link != index) touch(c.link);
    }
  }
  for (const int link : dirty_) links_[at(link)].dirty = false;
  dirty_.clear();
  for (const int way : changed_) set_rate(way, now);
}

// What no flow on a link exceeds: filled with the flows that other links hold below it, the rest is shared.
double Flows::level(int index) {
  const Link& link = links_[at(index)];
  demands_.clear();
  double weight = 0;
  for (const int way : link.active) {
    std::pair<double, double> demand{never, 0};
    for (const Crossing& c : ways_[at(way)].crossings)
      if (c.link == index)
        demand.second = c.weight;
      else
        demand.first = std::min(demand.first, links_[at(c.link)].level);
    demands_.push_back(demand);
    weight += demand.second;
  }
  std::sort(demands_.begin(), demands_.end());
  double most = 0;
  double room = link.bandwidth / (1 + incast_ * std::max(0.0, weight - 1));
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
  for (const Crossing& c : flow.crossings) rate = std::min(rate, links_[at(c.link)].level);
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
