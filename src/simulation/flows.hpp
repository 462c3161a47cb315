/// \file
/// Messages under way on links they share: how fast each is, and when it is through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tutti::simulation {

/// One link that a flow crosses, and how many like it do: where ranks are simulated by representatives, a
/// flow stands for all of its kind, and `weight` of them cross one link.
struct Crossing {
  int link = 0;
  double weight = 1;
};

/// Flows on shared links under max-min fairness. Every link has a level: no flow on it is faster. It is found
/// from the levels of the other links that its flows cross, by filling the link with what these cannot use;
/// when it changes, those links are looked at again. This ends in the max-min rates, from any levels at the
/// start (Charny, Clark, Jain 1995), and where a flow comes or goes only what it affects is computed anew.
/// Where that is a good part of all links, all of them are filled at once, which takes less.
class Flows {
 public:
  /// `bandwidth` by link, bytes/s; `incast` as Network says.
  Flows(std::vector<double> bandwidth, double incast);

  /// A way that flows can take; they are numbered from 0. At most one flow is on it at a time.
  int add_way(const std::vector<Crossing>& crossings);
  /// Once all ways are known: of links that all the same ways cross, one after the other, only the narrowest
  /// counts, and is the only one that is looked at from now on.
  void join_links();
  /// Begins a flow of `bytes` at time `now`.
  void begin(int way, double bytes, double now);
  /// When the next flow ends, if none begins before; infinity when there is none.
  double next(double now);
  /// Ends the flows that are through at `now`; appends their ways to `ended`.
  void end(double now, std::vector<int>& ended);
  /// s that a link was crossed by at least one flow, up to the last end.
  [[nodiscard]] double busy(int link) const;
  /// Flows that were looked at, again and again: what all this took.
  [[nodiscard]] std::uint64_t effort() const { return effort_; }

 private:
  struct Link {
    double bandwidth = 0;
    std::vector<int> active;  ///< ways
    double weight = 0;        ///< of those in all
    double since = 0, busy = 0;
    double level = 0;  ///< bytes/s, as last passed on; infinite before its first flow
    bool dirty = false;
  };
  struct Way {
    std::size_t first = 0, last = 0;    ///< in crossings_
    double left = 0, rate = 0, at = 0;  ///< bytes left at time `at`
    double done = 0;                    ///< when it will be through
    std::size_t place = 0;              ///< in the heap
    std::uint64_t decided = 0;          ///< the last of `fills_` in which its rate was found
    bool active = false, changed = false;
  };
  struct Filling {
    double room = 0, weight = 0;  ///< of flows that are not decided
    double fastest = 0;           ///< of those that are
  };
  [[nodiscard]] std::span<const Crossing> crossings(const Way& way) const {
    return std::span(crossings_).subspan(way.first, way.last - way.first);
  }
  void settle(double now);
  void fill();
  void decide(int full, double level);
  /// Whether it differs from what was passed on last. Those on the link have changed then.
  bool pass_on(int link, double level);
  [[nodiscard]] double level(int link);
  /// bytes/s for flows of this weight in all.
  [[nodiscard]] double room(const Link& link, double weight) const;
  void set_rate(int way, double now);
  void touch(int link);
  // A binary heap of active ways by `done`.
  void lift(std::size_t place);
  void sink(std::size_t place);
  void put(std::size_t place, int way);
  void drop(int way);
  [[nodiscard]] double key(std::size_t place) const;

  double incast_;
  std::vector<Link> links_;
  std::vector<int> counts_as_;  ///< by link, where they are joined, the one that is looked at
  std::vector<Way> ways_;
  std::vector<Crossing> crossings_;
  std::vector<Filling> filling_;
  std::uint64_t fills_ = 0, effort_ = 0;
  std::vector<int> heap_, dirty_, changed_;
  std::vector<std::pair<double, double>> demands_;  ///< while a level is found
};

}  // namespace tutti::simulation
