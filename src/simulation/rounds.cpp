#include "simulation/rounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "simulation/at.hpp"
#include "simulation/engine.hpp"

namespace tutti::simulation {

namespace {

// With `step`, 2 `step` and 3 `step` rounds, and those that are left over when all are divided by `step`.
constexpr std::uint64_t first_step = 8, last_step = 32;
constexpr std::uint64_t worth_it = 8;   // steps in all
constexpr double steady_within = 1e-3;  // of what a step takes

using Three = std::array<Result, 3>;

using execution::Instruction;

// Of a buffer that the schedule divides, whole rounds are in a part before that of the rest, in which pieces
// are shorter.
bool has_rounds(const std::vector<execution::Part>& parts) { return parts.size() > 1; }

// Where every block has its place, the last piece of each is the rest, and all parts have as many rounds.
bool is_cut(const Instruction& step) { return !step.whole && step.bytes != 0; }

// The rounds that all have in common; 0 where there are none.
std::uint64_t rounds_of(const std::vector<Actor>& actors) {
  std::uint64_t rounds = 0, block = 0;
  for (const Actor& actor : actors)
    for (const auto& parts : actor.program.lanes) {
      if (has_rounds(parts)) rounds = parts.front().iterations;
      for (const execution::Part& part : parts)
        for (const Instruction& step : part.instructions) {
          if (!is_cut(step)) continue;
          if (block != 0 && (step.bytes != block || part.iterations != rounds)) return 0;
          block = step.bytes;
          rounds = part.iterations;
        }
    }
  return rounds;
}

void set_rounds(std::vector<Actor>& actors, std::uint64_t before, std::uint64_t rounds) {
  for (Actor& actor : actors)
    for (auto& parts : actor.program.lanes)
      for (execution::Part& part : parts) {
        if (has_rounds(parts) ? &part != &parts.front() : part.iterations != before) continue;
        part.iterations = rounds;
        for (Instruction& step : part.instructions)
          if (is_cut(step)) step.bytes -= (before - rounds) * actor.program.stride;
      }
}

std::map<int, LinkCounts> by_link(const Result& result) {
  std::map<int, LinkCounts> links;
  for (const LinkCounts& link : result.links) links[link.link] = link;
  return links;
}

bool is_steady(const Network& network, const Three& of) {
  const double first = of[1].seconds - of[0].seconds, second = of[2].seconds - of[1].seconds;
  if (std::abs(second - first) > steady_within * second) return false;
  auto before = by_link(of[1]);
  return std::all_of(of[2].links.begin(), of[2].links.end(), [&](const LinkCounts& link) {
    const double bytes = link.bytes - before[link.link].bytes;
    return bytes / network.bandwidth[at(link.link)] <= (1 + steady_within) * second;
  });
}

// What `after` will be when it has grown `times` more as it has from `before`.
std::uint64_t grown(std::uint64_t before, std::uint64_t after, std::uint64_t times) {
  return after + times * (after - before);
}
double grown(double before, double after, std::uint64_t times) {
  return after + static_cast<double>(times) * (after - before);
}

RankCounts grown(const RankCounts& before, RankCounts after, std::uint64_t times) {
  for (const auto count :
       {&RankCounts::messages_sent, &RankCounts::bytes_sent, &RankCounts::messages_received,
        &RankCounts::bytes_received, &RankCounts::bytes_copied, &RankCounts::bytes_folded})
    after.*count = grown(before.*count, after.*count, times);
  for (const auto seconds : {&RankCounts::busy, &RankCounts::done})
    after.*seconds = grown(before.*seconds, after.*seconds, times);
  return after;
}

// Of equally long paths each simulation may end on another, and a part of one be less than of the other. So
// the time divides as the parts that have grown did.
Spent grown(const Spent& before, Spent after, std::uint64_t times) {
  const double more = static_cast<double>(times) * (after.total() - before.total());
  const auto growth = [&](double Spent::*part) { return std::max(0.0, after.*part - before.*part); };
  double all = 0;
  for (const auto part : spent_seconds) all += growth(part);
  if (all > 0)
    for (const auto part : spent_seconds) after.*part += more * growth(part) / all;
  after.hops += times * (std::max(after.hops, before.hops) - before.hops);
  return after;
}

Result grown(const Network& network, const Three& of, std::uint64_t times) {
  const Result& before = of[1];
  Result after = of[2];
  after.seconds = grown(before.seconds, after.seconds, times);
  after.spent = grown(before.spent, after.spent, times);
  after.steady = after.spent;  // of one call
  after.steady.hops = 0;
  for (std::size_t i = 0; i < after.ranks.size(); ++i)
    after.ranks[i] = grown(before.ranks[i], after.ranks[i], times);
  auto links = by_link(before);
  for (LinkCounts& link : after.links) {
    link.bytes = grown(links[link.link].bytes, link.bytes, times);
    link.busy = grown(links[link.link].busy, link.busy, times);
  }
  busiest_first(network, after.links);
  after.messages = grown(before.messages, after.messages, times);
  after.events = of[0].events + of[1].events + of[2].events;
  return after;
}

// By steps of so many rounds.
std::optional<Result> by_steps(const Network& network, const Quotient& quotient, std::vector<Actor>& actors,
                               Limits& limits, std::uint64_t rounds, std::uint64_t step) {
  Three of;
  for (std::uint64_t i = 0; i < of.size(); ++i) {
    const std::uint64_t some = rounds % step + (i + 1) * step;
    set_rounds(actors, rounds, some);
    of[i] = Engine(network, quotient, actors).run(limits);
    set_rounds(actors, some, rounds);
    limits.effort -= std::min(limits.effort, std::exchange(of[i].effort, 0));
    if (!of[i].finished) return std::move(of[i]);
  }
  if (!is_steady(network, of)) return std::nullopt;
  Result all = grown(network, of, rounds / step - of.size());
  return all.seconds > limits.seconds ? given_up(limits.seconds, 0) : all;
}

}  // namespace

std::uint64_t steps_in_all(const std::vector<Actor>& actors) {
  std::uint64_t steps = 0;
  for (const Actor& actor : actors)
    for (const auto& parts : actor.program.lanes)
      for (const execution::Part& part : parts) steps += part.iterations * part.instructions.size();
  return steps;
}

std::optional<Result> by_some_rounds(const Network& network, const Quotient& quotient,
                                     std::vector<Actor>& actors, Limits& limits) {
  const std::uint64_t rounds = rounds_of(actors);
  if (rounds < worth_it * first_step) return std::nullopt;
  const double least = Engine(network, quotient, actors).bound();
  if (least > limits.seconds) return given_up(least, 0);
  std::optional<Result> found;
  for (std::uint64_t step = first_step; !found && step <= last_step && rounds >= worth_it * step; step *= 2)
    found = by_steps(network, quotient, actors, limits, rounds, step);
  if (found && found->too_long) found->seconds = std::max(found->seconds, least);
  return found;
}

}  // namespace tutti::simulation
