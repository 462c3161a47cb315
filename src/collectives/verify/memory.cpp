#include "collectives/verify/memory.hpp"

#include <algorithm>

#include "collectives/verify/contract.hpp"

namespace tutti::proof {
namespace {

/// `earlier`, which the run has met first, precedes `event` on every timing.
bool precedes(Event earlier, Event event, const Clock& clock) {
  return earlier.lane < 0 || earlier.lane == event.lane ||
         earlier.time <= clock[static_cast<std::size_t>(earlier.lane)];
}

}  // namespace

double Memory::cells(const Schedule& schedule, int pieces) {
  return double{1} * schedule.ranks *
         ((double{1} * input_chunks(schedule) + output_chunks(schedule)) * pieces + schedule.scratch);
}

Memory::Memory(const Schedule& schedule, const VerifyOptions& options, std::size_t compared)
    : may_compare_(compared) {
  std::size_t next = 0;
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    const auto chunks = [&](Space space) {
      return static_cast<std::size_t>(chunks_of(schedule, rank, space));
    };
    const std::size_t input = chunks(Space::input);
    const std::size_t output = chunks(Space::output);
    Layout layout{next, next + input, next, input + output};
    if (options.in_place && input > 0 && output > 0) {
      // In place, the smaller buffer is chunk `rank` of the larger one.
      const auto own = static_cast<std::size_t>(rank);
      layout = {next + (output > input ? own : 0), next + (input > output ? own : 0), next,
                std::max(input, output)};
    }
    layout.scratch = next + layout.piece * static_cast<std::size_t>(options.pieces);
    next = layout.scratch + chunks(Space::scratch);
    layouts_.push_back(layout);
  }
  cells_.resize(next);
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    for (int piece = 0; piece < options.pieces; ++piece) {
      for (int chunk = 0; chunk < chunks_of(schedule, rank, Space::input); ++chunk) {
        cells_[at(in(chunk), rank, piece)].value = contribution(rank, chunk, piece);
      }
    }
  }
}

std::size_t Memory::at(const Operand& operand, Rank rank, int piece) const {
  const Layout& layout = layouts_[static_cast<std::size_t>(operand.rank < 0 ? rank : operand.rank)];
  const auto first = static_cast<std::size_t>(operand.first);
  if (operand.space == Space::scratch) return layout.scratch + first;
  const std::size_t base = operand.space == Space::input ? layout.input : layout.output;
  return base + static_cast<std::size_t>(piece) * layout.piece + first;
}

const Value& Memory::read(std::size_t cell, Event event, const Clock& clock) {
  Cell& place = cells_[cell];
  if (!place.value.defined()) throw Flaw{"reads a chunk that holds nothing yet"};
  if (!precedes(place.writer, event, clock))
    throw Flaw{"race: reads a chunk that another lane may still be writing"};
  if (place.readers.size() > may_compare_)
    throw Flaw{"too large to prove: too many lanes read the same chunks"};
  may_compare_ -= place.readers.size();
  const auto older = std::find_if(place.readers.begin(), place.readers.end(),
                                  [&](const Event& reader) { return precedes(reader, event, clock); });
  if (older != place.readers.end()) {
    *older = event;
  } else {
    place.readers.push_back(event);
  }
  return place.value;
}

void Memory::write(std::size_t cell, const Value& value, Event event, const Clock& clock) {
  Cell& place = cells_[cell];
  if (place.views > 0) throw Flaw{"race: overwrites a chunk that a message may still view"};
  if (!precedes(place.writer, event, clock))
    throw Flaw{"race: writes a chunk that another lane may still be writing"};
  for (const Event& reader : place.readers) {
    if (!precedes(reader, event, clock))
      throw Flaw{"race: overwrites a chunk that another lane may still be reading"};
  }
  place.readers.clear();
  place.value = value;
  place.writer = event;
}

}  // namespace tutti::proof
