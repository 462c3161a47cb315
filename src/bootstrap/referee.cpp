#include "bootstrap/referee.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tutti::bootstrap {
namespace {

constexpr std::size_t most_cases = 1024;

struct Difference {
  const StuckReport* other = nullptr;
  const CallRecord *mine = nullptr, *theirs = nullptr;
};

/// The lowest sequence number with different tags; `other` stays null when there is none.
Difference first_difference(const StuckReport& mine, const StuckReport& other) {
  Difference first;
  for (const auto& call : mine.calls) {
    const auto same = std::ranges::find(other.calls, call.sequence, &CallRecord::sequence);
    if (same == other.calls.end() || same->tag == call.tag) continue;
    if (first.other == nullptr || call.sequence < first.mine->sequence) first = {&other, &call, &*same};
  }
  return first;
}

std::string describe(const StuckReport& report, const CallRecord& call) {
  return "rank " + std::to_string(report.me) + " called " + call.text;
}

}  // namespace

std::optional<Notice> Referee::hear(Rank world_rank, StuckReport report) {
  const auto number = report.communicator;
  auto& here = cases_[number];
  here.heard = ++reports_;
  const auto& mine = here.reports[report.me] = std::move(report);
  Difference found;
  for (const auto& [rank, other] : here.reports) {
    const auto one = first_difference(mine, other);
    if (one.other != nullptr && (found.other == nullptr || one.mine->sequence < found.mine->sequence))
      found = one;
  }
  std::optional<Notice> verdict;
  if (found.other != nullptr && !std::exchange(here.decided, true)) {
    auto a = std::pair(&mine, found.mine), b = std::pair(found.other, found.theirs);
    if (b.first->me < a.first->me) std::swap(a, b);
    const bool read_alike = a.second->text == b.second->text;
    verdict = Notice{.kind = Notice::Kind::failed,
                     .rank = world_rank,
                     .communicator = number,
                     .code = ErrorCode::mismatch,
                     .ranks = {a.first->me, b.first->me},
                     .text = "call " + std::to_string(found.mine->sequence) + " differs: " +
                             describe(*a.first, *a.second) + ", " + describe(*b.first, *b.second) +
                             (read_alike ? " with other options, schedule, factor or counts" : "") +
                             "; all ranks must make the same calls in the same order"};
  }
  if (cases_.size() > most_cases)
    cases_.erase(std::ranges::min_element(cases_, {}, [](const auto& one) { return one.second.heard; }));
  return verdict;
}

}  // namespace tutti::bootstrap
