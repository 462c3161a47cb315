#include "collectives/verify/contract.hpp"

#include <utility>

#include "collectives/facts.hpp"

namespace tutti::proof {

int chunks_of(const Schedule& schedule, Rank rank, Space space) {
  const bool root = rank == schedule.root;
  if (space == Space::scratch) return schedule.scratch;
  if (space == Space::input) {
    return root || !only_root_has_input(schedule.collective) ? input_chunks(schedule) : 0;
  }
  return root || !only_root_has_output(schedule.collective) ? output_chunks(schedule) : 0;
}

Contract::Contract(const Schedule& schedule, int pieces) : schedule_(&schedule) {
  if (!reduces(schedule.collective)) return;
  for (int piece = 0; piece < pieces; ++piece) {
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      Value value = contribution(0, chunk, piece);
      for (Rank rank = 1; rank < schedule.ranks; ++rank) add(value, contribution(rank, chunk, piece));
      value.finished = true;
      whole_.push_back(value);
      whole_contributions_.emplace(value.contributions[0], value.contributions[1]);
    }
  }
}

Value Contract::expected(Rank rank, int chunk, int piece) const {
  const auto whole = [&](int which) {
    return whole_[static_cast<std::size_t>(piece) * static_cast<std::size_t>(schedule_->chunks) +
                  static_cast<std::size_t>(which)];
  };
  switch (schedule_->collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return whole(chunk);
    case Collective::reduce_scatter:
      return whole(rank);
    case Collective::all_gather:
    case Collective::gather:
      return contribution(chunk, 0, piece);
    case Collective::broadcast:
      return contribution(schedule_->root, chunk, piece);
    case Collective::scatter:
      return contribution(schedule_->root, rank, piece);
    case Collective::all_to_all:
      return contribution(chunk, rank, piece);
    case Collective::barrier:
      break;
  }
  return {};
}

bool Contract::is_whole(const Value& value) const {
  if (std::cmp_not_equal(value.count, schedule_->ranks)) return false;
  const auto found = whole_contributions_.find(value.contributions[0]);
  return found != whole_contributions_.end() && found->second == value.contributions[1];
}

}  // namespace tutti::proof
