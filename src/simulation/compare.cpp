#include "simulation/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

namespace tutti::simulation {

namespace {

constexpr double microseconds = 1e6;

std::string rather_than(const std::string& slower, const std::string& faster) {
  return slower == faster ? slower + " in both" : slower + ", not " + faster;
}

std::string hops(const Candidate& slower, const Candidate& faster) {
  return "messages and credits waited for, one after the other: " +
         rather_than(std::to_string(slower.result.spent.hops), std::to_string(faster.result.spent.hops));
}

std::string links(const Network& network, const Candidate& slower, const Candidate& faster) {
  const auto busiest = [&](const Candidate& one) {
    if (one.result.links.empty()) return std::string("none");
    const LinkCounts& link = one.result.links.front();
    return fmt::format("{} on {}", size_text(link.bytes), link_text(network, link));
  };
  return "on links; the busiest: " + rather_than(busiest(slower), busiest(faster));
}

std::string messages(const Candidate& slower, const Candidate& faster) {
  const auto count = [](const Candidate& one) {
    return fmt::format("{}", most_of_a_rank(one, [](const RankCounts& rank) {
                         return rank.messages_sent + rank.messages_received;
                       }));
  };
  return "sending and receiving; messages of a rank, at most: " + rather_than(count(slower), count(faster));
}

std::string folds(const Candidate& slower, const Candidate& faster) {
  const auto bytes = [](const Candidate& one) {
    return size_text(
        static_cast<double>(most_of_a_rank(one, [](const RankCounts& rank) { return rank.bytes_folded; })));
  };
  return "folding; bytes of a rank, at most: " + rather_than(bytes(slower), bytes(faster));
}

std::string loss(const Network& network, const Candidate& loser, const Candidate& best) {
  std::string text = fmt::format("not {} in pieces of {}: {} us, {:.2f} us more\n", loser.algorithm->name,
                                 size_text(static_cast<double>(loser.result.piece)), time_text(loser.result),
                                 (loser.result.seconds - best.result.seconds) * microseconds);
  const auto reasons = differences(network, loser, best);
  for (const Difference& reason : reasons)
    text += fmt::format("  {:+.2f} us {}\n", reason.seconds * microseconds, reason.what);
  if (reasons.empty()) text += "  it is as fast; of equals, the first in the library's list is taken\n";
  return text;
}

// "all_pairs (64K 256K), ring (64K)"
std::string names(const std::vector<LeftOut>& left_out, bool too_long) {
  std::map<std::string_view, std::set<std::size_t>> pieces;
  for (const LeftOut& one : left_out)
    if (one.too_long == too_long) pieces[one.algorithm->name].insert(one.piece);
  std::vector<std::string> all;
  all.reserve(pieces.size());
  for (const auto& [algorithm, sizes] : pieces) {
    std::string those;
    for (const std::size_t piece : sizes)
      those += (those.empty() ? "" : " ") + size_text(static_cast<double>(piece));
    all.push_back(fmt::format("{} ({})", algorithm, those));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

std::vector<Difference> differences(const Network& network, const Candidate& slower,
                                    const Candidate& faster) {
  const Spent &a = slower.result.spent, &b = faster.result.spent;
  std::vector<Difference> all = {
      {a.latency - b.latency, hops(slower, faster)},
      {a.links - b.links, links(network, slower, faster)},
      {a.messages - b.messages, messages(slower, faster)},
      {a.copies - b.copies, "copying"},
      {a.folds - b.folds, folds(slower, faster)},
      {a.steps - b.steps, "steps"},
      {slower.besides - faster.besides, "turns on shared processors, and what was measured over the model"},
  };
  // Less than a picosecond is rounding.
  constexpr double nothing = 1e-12;
  std::erase_if(all, [](const Difference& one) { return std::abs(one.seconds) < nothing; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Difference& x, const Difference& y) { return x.seconds > y.seconds; });
  return all;
}

std::vector<const Candidate*> runners_up(const std::vector<Candidate>& all) {
  std::vector<const Candidate*> found;
  if (all.size() > 1) found.push_back(&all[1]);
  const auto other =
      std::ranges::find_if(all, [&](const Candidate& one) { return one.algorithm != all[0].algorithm; });
  if (other != all.end() && &*other != found[0]) found.push_back(&*other);
  return found;
}

double load(const Network& network, const Candidate& candidate, const LinkCounts& link) {
  return link.bytes / network.bandwidth[static_cast<std::size_t>(link.link)] / candidate.result.seconds;
}

std::string describe(const Network& network, const Ranking& ranking, std::string_view more_effort) {
  const Candidate& best = ranking.candidates.at(0);
  std::string text = fmt::format(
      "fastest: {}, {} lanes, chunks of {} in pieces of {}, {} messages: {} us\n", best.algorithm->name,
      most_of_a_rank(best, [](const RankCounts& rank) { return rank.lanes; }),
      size_text(static_cast<double>(best.result.chunk)), size_text(static_cast<double>(best.result.piece)),
      best.result.messages, time_text(best.result));
  if (!best.result.links.empty())
    text += fmt::format("busiest link: {:.0f}% {}, {}\n", 100 * load(network, best, best.result.links[0]),
                        link_text(network, best.result.links[0]), size_text(best.result.links[0].bytes));
  if (network.adapter)
    text += fmt::format("queue pairs of an adapter, at most: {}\n",
                        queue_pairs_per_adapter(network, best.result));
  bool any_estimated = best.result.estimated;
  for (const Candidate* loser : runners_up(ranking.candidates)) {
    text += loss(network, *loser, best);
    any_estimated = any_estimated || loser->result.estimated;
  }
  if (any_estimated) text += fmt::format("{}\n", estimate_note);
  return text + describe(ranking.left_out, more_effort);
}

std::string describe(const std::vector<LeftOut>& left_out, std::string_view more_effort,
                     std::string_view indent) {
  std::string text;
  if (const std::string slower = names(left_out, false); !slower.empty())
    text += fmt::format("{}slower, not simulated to the end: {}\n", indent, slower);
  if (const std::string unknown = names(left_out, true); !unknown.empty())
    text += fmt::format("{}perhaps faster, but too long to simulate{}: {}\n", indent,
                        more_effort.empty() ? "" : fmt::format(" ({})", more_effort), unknown);
  return text;
}

std::string time_text(const Result& result) {
  return fmt::format("{}{:.2f}", result.estimated ? "~" : "", result.seconds * microseconds);
}

std::string size_text(double bytes) {
  const char* units[] = {"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); bytes /= 1024) ++unit;
  return fmt::format("{:.4g}{}", bytes, units[unit]);
}

std::string link_text(const Network& network, const LinkCounts& link) {
  return network.link_name(link.link) +
         (link.alike > 1 ? fmt::format(" (and {} alike)", link.alike - 1) : "");
}

}  // namespace tutti::simulation
