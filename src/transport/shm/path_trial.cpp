#include "transport/shm/path_trial.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti {

Path PathTrial::path_at(std::uint32_t number) const {
  if (number == 0) return path_;
  for (const Path path : all_paths)
    if (path != path_ && tried_.contains(path) && --number == 0) return path;
  return path_;
}

void PathTrial::begin_gap() {
  call_ = 0;
  gap_ = std::min(cadence_.growth * gap_, cadence_.longest_gap);
  glanced_ = !cadence_.glances;
}

PathTrial::Turn PathTrial::next(Path presumed) {
  if (!std::exchange(started_, true)) path_ = presumed;
  if (call_ == gap_ && tried_.size() == 1) {
    begin_gap();
    tried_ = paths_;
  }
  if (call_ < gap_) {
    ++call_;
    return {path_, false, false, decided()};
  }
  const std::uint32_t at = call_++ - gap_;
  return glanced_ ? next_to_compare(at) : next_to_glance(at);
}

// By the present path, whose calls went before, as many as count.
PathTrial::Turn PathTrial::next_to_glance(std::uint32_t at) {
  if (at == 0) samples_ = {};
  const std::uint32_t number = at < cadence_.counted ? 0 : at - cadence_.counted + 1;
  if (number < tried_.size()) return {path_at(number), true, false, true};
  call_ = gap_;
  glanced_ = decides_glance_ = true;
  return {path_, false, true, true};
}

PathTrial::Turn PathTrial::next_to_compare(std::uint32_t at) {
  if (at == 0)
    for (const Path path : all_paths)
      if (path != path_ || !cadence_.glances) samples_[index_of(path)].clear();
  decides_glance_ = false;
  const std::uint32_t each = cadence_.settling + cadence_.counted;
  const std::uint32_t settled = at + (cadence_.glances ? each : cadence_.settling);
  const std::uint32_t number = settled / each;
  if (number < tried_.size()) return {path_at(number), settled % each >= cadence_.settling, false, true};
  begin_gap();
  return {path_, false, true, true};
}

void PathTrial::record(Path path, std::chrono::nanoseconds time) {
  samples_[index_of(path)].push_back(static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time.count(), 1, std::numeric_limits<std::uint32_t>::max())));
}

// Where ranks share a processor, who runs ahead in one call waits in the next one: only two in a row tell
// what a call takes. Whatever else happens makes them longer, so of all pairs the shortest counts.
PathTrial::Times PathTrial::times() const {
  Times times{};
  for (std::size_t p = 0; p < times.size(); ++p) {
    const auto& samples = samples_[p];
    if (samples.size() == 1) times[p] = samples[0];
    for (std::size_t i = 1; i < samples.size(); ++i) {
      const auto pair = static_cast<std::uint32_t>((std::uint64_t{samples[i - 1]} + samples[i]) / 2);
      times[p] = i == 1 ? pair : std::min(times[p], pair);
    }
  }
  return times;
}

// A rank that comes early waits in each call for what others do between calls. It waits by either path, so
// the difference of the sums is still what the paths cost. One long call each says less: so much can happen
// between two of them that waiting outweighs both, and only the rank that comes last waits for nobody.
PathTrial::Times PathTrial::costs(std::span<const Times> of_ranks) const {
  std::array<std::uint64_t, all_paths.size()> costs{};
  std::uint64_t ranks = 0;
  for (const Times& times : of_ranks) {
    const auto lacks = [&](Path p) { return tried_.contains(p) && times[index_of(p)] == 0; };
    if (std::any_of(all_paths.begin(), all_paths.end(), lacks)) continue;
    for (std::size_t p = 0; p < costs.size(); ++p) {
      const std::uint64_t time = times[p];
      costs[p] = !cadence_.by_last_to_come ? costs[p] + time : ranks == 0 ? time : std::min(costs[p], time);
    }
    ++ranks;
  }
  const std::uint64_t parts = cadence_.by_last_to_come ? 1 : std::max<std::uint64_t>(ranks, 1);
  Times means{};
  for (std::size_t p = 0; p < costs.size(); ++p) means[p] = static_cast<std::uint32_t>(costs[p] / parts);
  return means;
}

void PathTrial::decide(std::span<const Times> of_ranks) {
  const Times costs = this->costs(of_ranks);
  if (costs[index_of(path_)] == 0) return;
  for (const Path path : all_paths)
    if (tried_.contains(path)) decided_by_[index_of(path)] = costs[index_of(path)];
  if (decides_glance_) return leave_out_hopeless();
  take_fastest();
}

double PathTrial::time(Path path) const { return static_cast<double>(decided_by_[index_of(path)]); }

void PathTrial::leave_out_hopeless() {
  Paths left{path_};
  for (const Path path : all_paths)
    if (tried_.contains(path) && time(path) < hopeless * time(path_) + cold) left.add(path);
  tried_ = left;
  if (tried_.size() == 1) begin_gap();
}

void PathTrial::take_fastest() {
  Path fastest = path_;
  for (const Path path : all_paths)
    if (tried_.contains(path) && time(path) < time(fastest)) fastest = path;
  if (time(fastest) < cadence_.gain * time(path_)) path_ = fastest;
  Paths near{path_};
  for (const Path path : all_paths)
    if (tried_.contains(path) && time(path) < far * time(fastest)) near.add(path);
  tried_ = tried_ == paths_ ? near : paths_;
}

}  // namespace tutti
