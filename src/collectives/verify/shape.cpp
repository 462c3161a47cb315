#include "collectives/verify/shape.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/facts.hpp"
#include "collectives/verify/contract.hpp"

namespace tutti::proof {
namespace {

// What a proof may cost, besides clocks (run.hpp): some hundred megabytes, some seconds.
constexpr double max_cells = 1 << 21;  // chunks of all buffers
constexpr double max_lanes_in_all = 1 << 13;
constexpr double max_touched = 1 << 25;  // chunks that all steps read and write
constexpr double max_joined = 1e10;      // clock entries compared on receiving
constexpr int max_pieces = 1 << 10;

void require(bool holds, const char* what) {
  if (!holds) throw Flaw{what};
}

void check_size(const Schedule& schedule, int pieces) {
  double lanes = 0;
  double touched = 0;
  double received = 0;
  const auto count = [&](const Operand& operand) { touched += 1.0 + std::max(operand.count, 0); };
  for (const auto& rank : schedule.lanes) {
    lanes += std::max(1.0, static_cast<double>(rank.size()));  // there is a clock for each rank's end, too
    for (const Lane& lane : rank) {
      for (const Step& step : lane) {
        std::for_each(step.sources.begin(), step.sources.end(), count);
        std::for_each(step.sinks.begin(), step.sinks.end(), count);
        received += static_cast<double>(step.sources.size());
      }
    }
  }
  require(pieces <= max_pieces, "too large to prove: too many pieces");
  require(Memory::cells(schedule, pieces) <= max_cells, "too large to prove: too many chunks");
  require(lanes <= max_lanes_in_all, "too large to prove: too many lanes");
  require(touched * pieces <= max_touched && received * lanes * pieces <= max_joined,
          "too large to prove: too many steps");
}

void check_chunks(const Schedule& schedule) {
  switch (schedule.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      return require(schedule.chunks > 0, "a buffer of no chunks");
    case Collective::barrier:
      return require(schedule.chunks == 0, "a barrier has no chunks (chunks 0)");
    default:
      return require(schedule.chunks == schedule.ranks, "this collective has one chunk for every rank");
  }
}

void require_header(const Schedule& schedule, const VerifyOptions& options) {
  require(static_cast<int>(schedule.collective) < collective_count, "no such collective");
  require(schedule.ranks > 0, "no ranks");
  require(std::cmp_equal(schedule.lanes.size(), schedule.ranks), "steps for another number of ranks");
  require(schedule.root >= 0 && schedule.root < schedule.ranks, "the root is not one of the ranks");
  require(schedule.root == 0 || has_root(schedule.collective), "a root, which this collective has not");
  require(schedule.credits >= 1 && schedule.credits <= max_credits, "credits out of range");
  require(options.credits >= 0 && options.pieces > 0, "verify needs credits and at least one piece");
  require(schedule.scratch >= 0, "a negative number of scratch chunks");
  check_chunks(schedule);
  for (const auto& lanes : schedule.lanes)
    require(lanes.size() <= max_lanes, "more lanes than an executor runs");
  check_size(schedule, options.pieces);
}

void check_operand(const Schedule& schedule, Rank rank, const Operand& operand, bool sink) {
  const auto is_rank = [&](Rank peer) { return peer >= 0 && peer < schedule.ranks; };
  if (operand.kind == Operand::Kind::message) {
    require(is_rank(operand.rank) && operand.rank != rank, "a message from or to no such peer");
    require(operand.channel < max_channels, "a channel out of range");
    require(operand.count >= 0, "a message of negative size");
    return;
  }
  require(operand.kind == Operand::Kind::memory && operand.space <= Space::scratch,
          "an operand of no known kind");
  require(operand.rank == -1 || is_rank(operand.rank), "memory of no such rank");
  const int chunks = chunks_of(schedule, operand.rank < 0 ? rank : operand.rank, operand.space);
  require(operand.count > 0 && operand.first >= 0 && operand.count <= chunks &&
              operand.first <= chunks - operand.count,
          "chunks outside the buffer");
  require(!sink || operand.space != Space::input, "writes an input");
}

void check_counts(const Step& step) {
  require(!step.sources.empty() || !step.sinks.empty(), "a step of no operands");
  const int count = (step.sources.empty() ? step.sinks : step.sources).front().count;
  const auto equal = [&](const Operand& operand) { return operand.count == count; };
  require(std::all_of(step.sources.begin(), step.sources.end(), equal) &&
              std::all_of(step.sinks.begin(), step.sinks.end(), equal),
          "operands of different numbers of chunks");
  require(count == 0 || (!step.sources.empty() && !step.sinks.empty()), "data from nowhere, or to nowhere");
  require(count > 0 || !step.complete, "`complete` on a token, which carries nothing");
}

using Range = std::pair<std::size_t, std::size_t>;  // first cell, one past the last

std::vector<Range> ranges(const std::vector<Operand>& operands, Rank rank, const Memory& memory) {
  std::vector<Range> result;
  for (const Operand& operand : operands) {
    if (operand.kind != Operand::Kind::memory) continue;
    const std::size_t first = memory.at(operand, rank, 0);
    result.emplace_back(first, first + static_cast<std::size_t>(operand.count));
  }
  std::sort(result.begin(), result.end());
  return result;
}

void check_overlap(const Step& step, Rank rank, const Memory& memory) {
  const std::vector<Range> sinks = ranges(step.sinks, rank, memory);
  for (std::size_t i = 1; i < sinks.size(); ++i) {
    require(sinks[i].first >= sinks[i - 1].second, "two sinks of a step overlap");
  }
  if (sinks.empty()) return;
  for (const Range& source : ranges(step.sources, rank, memory)) {
    // Sinks are disjoint and as long as the source, hence at most two of them meet it: the last that begins
    // before its end, and that one's predecessor.
    const auto after = std::partition_point(sinks.begin(), sinks.end(),
                                            [&](const Range& sink) { return sink.first < source.second; });
    const bool meets = after != sinks.begin() && std::prev(after)->second > source.first;
    require(!meets || *std::prev(after) == source, "a source and a sink of a step overlap in part");
  }
}

/// Which lane uses each end of each FIFO.
class Ends {
 public:
  void claim(std::uint64_t fifo, int lane, int step) {
    const auto [end, first_use] = ends_.try_emplace(fifo, lane, step);
    if (first_use) return;
    require(end->second.first == lane, "two lanes use the same end of a FIFO");
    require(end->second.second != step, "a step names one FIFO twice");
    end->second.second = step;
  }

 private:
  std::unordered_map<std::uint64_t, std::pair<int, int>> ends_;  // the lane, its latest step
};

class StepCheck {
 public:
  StepCheck(const Schedule& schedule, const Memory& memory) : schedule_(schedule), memory_(memory) {}

  void operator()(Rank rank, int lane, int number, const Step& step) {
    for (const Operand& source : step.sources) check_operand(schedule_, rank, source, false);
    for (const Operand& sink : step.sinks) check_operand(schedule_, rank, sink, true);
    check_counts(step);
    check_overlap(step, rank, memory_);
    require(!step.complete || reduces(schedule_.collective),
            "`complete` in a collective that reduces nothing");
    for (const Operand& source : step.sources) {
      if (source.kind != Operand::Kind::message) continue;
      receivers_.claim(fifo_key(source.rank, rank, source.channel), lane, number);
    }
    for (const Operand& sink : step.sinks) {
      if (sink.kind == Operand::Kind::message)
        senders_.claim(fifo_key(rank, sink.rank, sink.channel), lane, number);
    }
  }

 private:
  const Schedule& schedule_;
  const Memory& memory_;
  Ends senders_;
  Ends receivers_;
};

}  // namespace

std::optional<Fault> check_header(const Schedule& schedule, const VerifyOptions& options) {
  try {
    require_header(schedule, options);
  } catch (const Flaw& flaw) {
    return Fault{flaw.what};
  }
  return std::nullopt;
}

std::optional<Fault> check_steps(const Schedule& schedule, const Memory& memory) {
  StepCheck check(schedule, memory);
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    const auto& lanes = schedule.lanes[static_cast<std::size_t>(rank)];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (std::size_t step = 0; step < lanes[lane].size(); ++step) {
        try {
          check(rank, static_cast<int>(lane), static_cast<int>(step), lanes[lane][step]);
        } catch (const Flaw& flaw) {
          return Fault{flaw.what, rank, static_cast<int>(lane), static_cast<int>(step)};
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace tutti::proof
