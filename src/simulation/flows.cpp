#include "simulation/flows.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace tutti::simulation {

namespace {
constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

Flows::Flows(std::vector<double> bandwidth, double incast) : incast_(incast), links_(bandwidth.size()) {
  for (std::size_t l = 0; l < bandwidth.size(); ++l) links_[l].bandwidth = bandwidth[l];
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
  return heap_.empty() ? never : ways_[at(heap_[0])].done;
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

// All flows that a changed link reaches, through flows and links that they share.
void Flows::settle(double now) {
  for (const int changed : std::exchange(dirty_, {})) {
    links_[at(changed)].dirty = false;
    if (links_[at(changed)].visited == visit_ + 1) continue;
    component_links_ = {changed};
    component_ways_.clear();
    links_[at(changed)].visited = visit_ + 1;
    for (std::size_t i = 0; i < component_links_.size(); ++i)
      for (const int way : links_[at(component_links_[i])].active) {
        if (std::exchange(ways_[at(way)].visited, visit_ + 1) == visit_ + 1) continue;
        component_ways_.push_back(way);
        for (const Crossing& c : ways_[at(way)].crossings)
          if (std::exchange(links_[at(c.link)].visited, visit_ + 1) != visit_ + 1)
            component_links_.push_back(c.link);
      }
    fill(now);
  }
  ++visit_;
}

void Flows::fill(double now) {
  for (const int l : component_links_) {
    Link& link = links_[at(l)];
    link.weight = 0;
    for (const int way : link.active)
      for (const Crossing& c : ways_[at(way)].crossings)
        if (c.link == l) link.weight += c.weight;
    link.room = link.bandwidth / (1 + incast_ * std::max(0.0, link.weight - 1));
  }
  for (const int way : component_ways_) ways_[at(way)].fixed = false;
  for (std::size_t fixed = 0; fixed < component_ways_.size();) {
    double rate = never;
    int narrowest = -1;
    for (const int l : component_links_) {
      const Link& link = links_[at(l)];
      if (link.weight > 1e-9 && link.room / link.weight < rate) {
        rate = link.room / link.weight;
        narrowest = l;
      }
    }
    assert(narrowest >= 0);
    for (const int way : links_[at(narrowest)].active) {
      Way& flow = ways_[at(way)];
      if (std::exchange(flow.fixed, true)) continue;
      ++fixed;
      for (const Crossing& c : flow.crossings) {
        links_[at(c.link)].room -= rate * c.weight;
        links_[at(c.link)].weight -= c.weight;
      }
      if (flow.rate == rate) continue;
      flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.at));
      flow.at = now;
      flow.rate = rate;
      flow.done = now + flow.left / rate;
      lift(flow.place);
      sink(flow.place);
    }
    links_[at(narrowest)].weight = 0;
  }
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
