#include "simulation/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <tutti/error.hpp>

#include "collectives/partial_build.hpp"

namespace tutti::simulation {

namespace {

constexpr std::size_t KiB = 1024;

using Algorithms = std::vector<const Algorithm*>;

Algorithms that_send_messages(Collective collective) {
  Algorithms found;
  for (const Algorithm& one : algorithms())
    if (one.collective == collective && !one.one_sided) found.push_back(&one);
  return found;
}

// Whether a rank that is no root has something to do for each of the others: the schedule then grows with the
// square of the ranks. A few hundred of them show it.
bool grows_with_the_square(const Algorithm& algorithm) {
  constexpr int some = 256;
  const PartialBuild build(std::vector<Rank>{1});
  const Schedule schedule = algorithm.make(some, 0);
  std::size_t operands = 0;
  for (const Lane& lane : schedule.lanes[1])
    for (const Step& step : lane) operands += step.sources.size() + step.sinks.size();
  return operands >= static_cast<std::size_t>(some);
}

Algorithms wanted(const Network& network, const Question& question) {
  if (!question.algorithm.empty()) {
    const Algorithm* one = find_algorithm(question.collective, question.algorithm);
    if (one == nullptr || one->one_sided)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} has no algorithm \"{}\" that sends messages",
                                                           name(question.collective), question.algorithm));
    return {one};
  }
  const Algorithms all = that_send_messages(question.collective);
  const auto those = [&all](const auto& which) {
    Algorithms some;
    std::ranges::copy_if(all, std::back_inserter(some), which);
    return some;
  };
  const bool nodes = network.node_size > 1 && network.node_size < network.ranks;
  Algorithms found = those(
      [&](const Algorithm* one) { return one->by_nodes != nullptr ? nodes : network.ranks < flat_up_to; });
  // Where nothing was written for nodes, ten thousand ranks are served by what there is.
  if (found.empty())
    found =
        those([](const Algorithm* one) { return one->by_nodes == nullptr && !grows_with_the_square(*one); });
  if (found.empty()) found = {all.front()};
  return found;
}

// The most ranks that one of the first few sends to or hears from: a root, or what is within a tree or a
// chain.
std::size_t most_peers(int ranks, const Algorithm& algorithm) {
  std::vector<Rank> few(static_cast<std::size_t>(std::min(ranks, 5)));
  std::iota(few.begin(), few.end(), 0);
  const PartialBuild build(few);
  const Schedule schedule = algorithm.make(ranks, 0);
  std::size_t most = 1;
  for (const Rank rank : few) {
    std::set<Rank> peers;
    for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)])
      for (const Step& step : lane)
        for (const auto* ends : {&step.sources, &step.sinks})
          for (const Operand& end : *ends)
            if (end.kind == Operand::Kind::message) peers.insert(end.rank);
    most = std::max(most, peers.size());
  }
  return most;
}

// What is likely fast comes first, for it may spare the others: that made for nodes, and that which is
// neither wide, as where one rank talks to all, nor deep, as a chain.
void put_likely_fast_first(const Network& network, Algorithms& algorithms) {
  // Of ten thousand ranks they compare as of so many, whose schedules are built in no time.
  const int ranks = std::min(network.ranks, 1024);
  std::map<const Algorithm*, std::size_t> effort;
  for (const Algorithm* algorithm : algorithms) {
    if (algorithm->by_nodes != nullptr) continue;
    const std::size_t width = most_peers(ranks, *algorithm);
    effort[algorithm] = width + static_cast<std::size_t>(ranks) / width;
  }
  std::ranges::stable_sort(algorithms, {}, [&](const Algorithm* algorithm) { return effort[algorithm]; });
}

// Of equals, the one that comes first in algorithms().
bool comes_first(const Candidate& a, const Candidate& b) {
  return std::tuple(a.result.seconds, a.algorithm, a.piece) <
         std::tuple(b.result.seconds, b.algorithm, b.piece);
}

// Above it, nobody wants to know: the two fastest, and the best by another algorithm, are below, or have lost
// by far.
double limit_of(const std::vector<Candidate>& ranked, bool one_algorithm) {
  if (ranked.empty()) return std::numeric_limits<double>::infinity();
  const auto next = std::find_if(ranked.begin(), ranked.end(), [&](const Candidate& candidate) {
    return one_algorithm ? &candidate != &ranked[0] : candidate.algorithm != ranked[0].algorithm;
  });
  const double by_far = lost_by_far * ranked[0].result.seconds;
  return next == ranked.end() ? by_far : std::min(by_far, next->result.seconds);
}

void add_besides(Candidate& candidate, double crowd, double factor) {
  Result& result = candidate.result;
  const double simulated = result.seconds;
  if (crowd > 1 && result.finished) result.seconds = crowded(result, crowd);
  result.seconds *= factor;
  candidate.besides = result.seconds - simulated;
}

std::uint64_t times(std::uint64_t amount, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(amount) * factor);
}

[[noreturn]] void throw_too_long(const Network& network, const Question& question) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{} of {} bytes on {} ranks takes too long to simulate{}; {}fewer ranks or longer "
                          "pieces may do",
                          name(question.collective), question.bytes, network.ranks,
                          question.algorithm.empty() ? "" : " by " + question.algorithm,
                          question.more_effort.empty() ? "" : fmt::format("{}, ", question.more_effort)));
}

}  // namespace

Ranking rank_candidates(const Network& network, const Question& question) {
  auto algorithms = wanted(network, question);
  const bool gives_up = network.ranks > everybody_up_to;
  // Those that send to everybody would also leave least of the effort for others.
  if (algorithms.size() > 1) put_likely_fast_first(network, algorithms);
  // Long ones first: they are the fewest, and what is found by them may spare the others.
  std::vector<std::size_t> pieces = {1024 * KiB, 256 * KiB, 64 * KiB};
  if (question.piece != 0) pieces = {question.piece};
  std::uint64_t effort = times(most_effort, question.effort);
  Ranking found;
  for (const Algorithm* algorithm : algorithms) {
    const auto make = [&] { return algorithm->make(network.ranks, 0, network.node_size); };
    std::optional<Alike> alike;
    try {
      if (gives_up && !network.processor.multicasts)
        alike.emplace(make, network, times(most_fifos, question.effort));
    } catch (const TooManyFifos&) {
      for (const std::size_t piece : pieces) found.left_out.push_back({algorithm, piece, 0, true});
      continue;
    }
    const double factor = question.factor ? question.factor(*algorithm) : 1;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Workload workload{.collective = question.collective,
                              .bytes = question.bytes,
                              .type = question.type,
                              .piece = pieces[p],
                              .max_message = question.max_message,
                              .views = algorithm->views,
                              .extrapolates = true,
                              .extrapolates_from = gives_up ? 0 : some_pieces_from};
      Limits limits{.effort = effort / 2};
      if (gives_up) limits.seconds = limit_of(found.candidates, algorithms.size() == 1) / factor;
      Candidate one{algorithm, pieces[p],
                    alike ? alike->run(workload, limits) : simulate(make(), network, workload, limits)};
      effort -= std::min(effort, one.result.effort);
      // Shorter ones that are still as long as the messages do the same.
      while (p + 1 < pieces.size() && pieces[p + 1] >= one.result.piece) one.piece = pieces[++p];
      add_besides(one, question.crowd, factor);
      if (one.result.finished)
        found.candidates.insert(
            std::upper_bound(found.candidates.begin(), found.candidates.end(), one, comes_first),
            std::move(one));
      else
        found.left_out.push_back({algorithm, one.piece, one.result.seconds, one.result.too_long});
    }
  }
  if (found.candidates.empty()) throw_too_long(network, question);
  return found;
}

int queue_pairs_per_adapter(const Network& network, const Result& result) {
  int most = 0;
  for (const auto& [adapter, pairs] : queue_pairs_by_adapter(network, result.by_rank, result.ranks))
    most = std::max(most, pairs);
  return most;
}

}  // namespace tutti::simulation
