#include "communicator/path_trial.hpp"

#include <algorithm>
#include <limits>

namespace tutti {

namespace {

constexpr std::uint32_t calls_each = PathTrial::settling + PathTrial::counted;
constexpr double gain = 0.97;  // of the present path's time: less is taken for noise

Path other(Path path) { return path == Path::slots ? Path::attach : Path::slots; }

// Where one rank may be done before the others have begun, the slowest rank's time counts. Otherwise all end
// together, and the time of the last to come counts, for it did not wait for anybody.
bool ends_apart(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

}  // namespace

PathTrial::Turn PathTrial::next() {
  const std::uint32_t at = call_;
  call_ = (call_ + 1) % period;
  if (at == 0) samples_ = {};
  if (at < 2 * calls_each)
    return {at < calls_each ? path_ : other(path_), at % calls_each >= settling, false};
  return {path_, false, at == 2 * calls_each};
}

void PathTrial::record(Path path, std::chrono::nanoseconds time) {
  samples_[static_cast<std::size_t>(path)].push_back(static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time.count(), 1, std::numeric_limits<std::uint32_t>::max())));
}

PathTrial::Times PathTrial::times() const {
  Times times{};
  for (std::size_t w = 0; w < times.size(); ++w) {
    auto samples = samples_[w];
    if (samples.empty()) continue;
    std::sort(samples.begin(), samples.end());
    times[w] = samples[samples.size() / 2];
  }
  return times;
}

void PathTrial::decide(std::span<const Times> of_ranks) {
  Times merged{};
  for (std::size_t w = 0; w < merged.size(); ++w)
    for (const Times& times : of_ranks) {
      if (times[w] == 0) continue;
      const bool first = merged[w] == 0;
      merged[w] = first                     ? times[w]
                  : ends_apart(collective_) ? std::max(merged[w], times[w])
                                            : std::min(merged[w], times[w]);
    }
  if (merged[0] == 0 || merged[1] == 0) return;
  decided_by_ = merged;
  if (merged[static_cast<std::size_t>(other(path_))] < gain * merged[static_cast<std::size_t>(path_)])
    path_ = other(path_);
}

}  // namespace tutti
