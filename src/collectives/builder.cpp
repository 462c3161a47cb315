#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <tutti/error.hpp>
#include <tutti/schedule.hpp>

#include "collectives/partial_build.hpp"

namespace tutti {

Builder::Builder(std::string name, Collective collective, int ranks, int chunks, int lanes, int scratch)
    : partial_(PartialBuild::current()) {
  if (ranks < 1 || lanes < 1 || chunks < 0 || scratch < 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("schedule \"{}\" has {} ranks, {} lanes, {} chunks and {} of scratch; it needs at "
                    "least one rank and one lane, and no number of chunks is negative",
                    name, ranks, lanes, chunks, scratch));
  }
  schedule_.name = std::move(name);
  schedule_.collective = collective;
  schedule_.ranks = ranks;
  schedule_.chunks = chunks;
  schedule_.scratch = scratch;
  schedule_.lanes.assign(static_cast<std::size_t>(ranks), std::vector<Lane>(static_cast<std::size_t>(lanes)));
}

Builder& Builder::root(Rank rank) {
  schedule_.root = rank;
  return *this;
}

Builder& Builder::credits(int messages) {
  schedule_.credits = messages;
  return *this;
}

Builder::At Builder::at(Rank rank, int lane) {
  if (rank < 0 || rank >= schedule_.ranks || lane < 0 ||
      std::cmp_greater_equal(lane, schedule_.lanes[0].size())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("schedule \"{}\" has no rank {}, lane {}: it has {} ranks, {} lanes",
                            schedule_.name, rank, lane, schedule_.ranks, schedule_.lanes[0].size()));
  }
  if (partial_ != nullptr) {
    if (Step* step = partial_->begin(rank, lane)) return At(*step);
  }
  return At(schedule_.lanes[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)].emplace_back());
}

std::vector<Rank> Builder::ranks(int period) const {
  if (partial_ != nullptr) return partial_->wanted(schedule_.ranks, period);
  std::vector<Rank> all(static_cast<std::size_t>(schedule_.ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Schedule Builder::build() && {
  if (partial_ != nullptr) {
    partial_->finish();
    return std::move(schedule_);
  }
  auto& lanes = schedule_.lanes;
  for (std::size_t lane = lanes[0].size(); lane-- > 0;) {
    bool used = false;
    for (const auto& rank : lanes) used = used || !rank[lane].empty();
    if (used) continue;
    for (auto& rank : lanes) rank.erase(rank.begin() + static_cast<std::ptrdiff_t>(lane));
  }
  return std::move(schedule_);
}

Builder::At& Builder::At::from(Rank peer, int channel, int count) {
  return fold(message(peer, channel, count));
}

Builder::At& Builder::At::fold(Operand source) {
  step_->sources.push_back(source);
  return *this;
}

Builder::At& Builder::At::store(Operand sink) {
  step_->sinks.push_back(sink);
  return *this;
}

Builder::At& Builder::At::to(Rank peer, int channel, int count) {
  return store(message(peer, channel, count));
}

Builder::At& Builder::At::complete() {
  step_->complete = true;
  return *this;
}

}  // namespace tutti
