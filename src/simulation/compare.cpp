#include "simulation/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace tutti::simulation {

namespace {

template <typename Of>
std::uint64_t most(const Candidate& candidate, const Of& of) {
  std::uint64_t found = 0;
  for (const RankCounts& rank : candidate.result.ranks) found = std::max<std::uint64_t>(found, of(rank));
  return found;
}

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
    return fmt::format(
        "{}", most(one, [](const RankCounts& rank) { return rank.messages_sent + rank.messages_received; }));
  };
  return "sending and receiving; messages of a rank, at most: " + rather_than(count(slower), count(faster));
}

std::string folds(const Candidate& slower, const Candidate& faster) {
  const auto bytes = [](const Candidate& one) {
    return size_text(
        static_cast<double>(most(one, [](const RankCounts& rank) { return rank.bytes_folded; })));
  };
  return "folding; bytes of a rank, at most: " + rather_than(bytes(slower), bytes(faster));
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
  };
  // Less than a picosecond is rounding.
  constexpr double nothing = 1e-12;
  std::erase_if(all, [](const Difference& one) { return std::abs(one.seconds) < nothing; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Difference& x, const Difference& y) { return x.seconds > y.seconds; });
  return all;
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
