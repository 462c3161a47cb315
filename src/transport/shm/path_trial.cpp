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
  const std::uint32_t of_present = cadence_.counted + cadence_.trailing;
  const std::uint32_t number = at < of_present ? 0 : at - of_present + 1;
  const bool timed = at < cadence_.counted || number > 0;
  if (number < tried_.size()) return {path_at(number), timed, false, true};
  call_ = gap_;
  glanced_ = decides_glance_ = true;
  return {path_, false, true, true};
}

PathTrial::Turn PathTrial::next_to_compare(std::uint32_t at) {
  if (at == 0)
    for (const Path path : all_paths)
      if (path != path_ || !cadence_.glances) samples_[index_of(path)].clear();
  decides_glance_ = false;
  const std::uint32_t each = cadence_.settling + cadence_.counted + cadence_.trailing;
  const std::uint32_t settled = at + (cadence_.glances ? each : cadence_.settling);
  const std::uint32_t number = settled / each, of_path = settled % each;
  const bool timed = of_path >= cadence_.settling && of_path < cadence_.settling + cadence_.counted;
  if (number < tried_.size()) return {path_at(number), timed, false, true};
  begin_gap();
  return {path_, false, true, true};
}

void PathTrial::record(Path path, std::chrono::nanoseconds time) {
  samples_[index_of(path)].push_back(static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time.count(), 1, std::numeric_limits<std::uint32_t>::max())));
}

PathTrial::Times PathTrial::times() const {
  Times times{};
  for (std::size_t p = 0; p < times.size(); ++p) {
    const auto& samples = samples_[p];
    if (samples.size() == 1) times[p][0] = samples[0];
    for (std::size_t i = 0; i < pairs && 2 * i + 1 < samples.size(); ++i)
      times[p][i] = static_cast<std::uint32_t>((std::uint64_t{samples[2 * i]} + samples[2 * i + 1]) / 2);
  }
  return times;
}

// A rank that comes early waits in each call for what others do between calls. It waits by either path, so
// the difference of the sums is still what the paths cost. Where ranks share a processor, who runs ahead in
// one call waits in the next one, and another rank then: only sums over all ranks, of two calls in a row,
// tell what a call takes. Whatever else happens makes them longer, so the shorter pair counts. One long call
// each says less: so much can happen between two of them that waiting outweighs both, and only the rank that
// comes last waits for nobody.
PathTrial::Costs PathTrial::costs(std::span<const Times> of_ranks) const {
  std::vector<Times> counted;
  counted.reserve(of_ranks.size());
  for (const Times& times : of_ranks) {
    const auto lacks = [&](Path p) { return tried_.contains(p) && times[index_of(p)][0] == 0; };
    if (std::none_of(all_paths.begin(), all_paths.end(), lacks)) counted.push_back(times);
  }
  Costs costs{};
  for (std::size_t p = 0; p < costs.size(); ++p)
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      std::uint64_t sum = 0;
      std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
      for (const Times& times : counted) {
        sum += times[p][pair];
        least = std::min(least, times[p][pair]);
      }
      if (counted.empty() || least == 0) break;
      const auto cost = cadence_.by_last_to_come ? least : static_cast<std::uint32_t>(sum / counted.size());
      costs[p] = pair == 0 ? cost : std::min(costs[p], cost);
    }
  return costs;
}

void PathTrial::decide(std::span<const Times> of_ranks) {
  const Costs costs = this->costs(of_ranks);
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
