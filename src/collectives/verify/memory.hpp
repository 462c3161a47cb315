/// \file
/// The buffers of all ranks in a proof: where a chunk lies, what it holds, and who touches it when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/schedule.hpp>
#include <tutti/verify.hpp>

#include "collectives/verify/values.hpp"

namespace tutti::proof {

/// For every lane of the schedule, how many of its steps a lane has heard of (Fidge 1988, Mattern 1989). A
/// lane's own entry is not kept up to date, so that what it sends between two receives can share one clock.
using Clock = std::vector<std::uint32_t>;

/// Step number `time` (from 1) of a lane, lanes of all ranks numbered through.
struct Event {
  int lane = -1;
  std::uint32_t time = 0;
};

/// One chunk of one buffer, in one piece.
struct Cell {
  Value value;
  Event writer;
  std::vector<Event> readers;  ///< since the last write; those that precede another reader are left out
  int views = 0;               ///< messages on their way that will be read from here
};

/// Readers of chunks that a proof compares at most: some seconds.
inline constexpr std::size_t max_compared = 10'000'000'000;

/// All cells. Cells of consecutive chunks of one buffer and piece are consecutive.
class Memory {
 public:
  /// `compared`: `read` gives up where more readers would be compared.
  Memory(const Schedule& schedule, const VerifyOptions& options, std::size_t compared = max_compared);

  /// Cells that a schedule with a sound header needs, to be refused before they are allocated.
  static double cells(const Schedule& schedule, int pieces);
  /// The cell of chunk `first` of an operand that is memory and in range, seen from `rank`.
  [[nodiscard]] std::size_t at(const Operand& operand, Rank rank, int piece) const;
  [[nodiscard]] const Value& peek(std::size_t cell) const { return cells_[cell].value; }

  /// Throw Flaw for undefined data and for races, and where too many lanes read the same. `clock` is that of
  /// the lane of `event`.
  const Value& read(std::size_t cell, Event event, const Clock& clock);
  void write(std::size_t cell, const Value& value, Event event, const Clock& clock);
  /// Between a send and the receiver's step, the message is a view of the cell.
  void begin_view(std::size_t cell, int messages) { cells_[cell].views += messages; }
  void end_view(std::size_t cell) { --cells_[cell].views; }

 private:
  struct Layout {  ///< of one rank, in cells
    std::size_t input = 0, output = 0, scratch = 0;
    std::size_t piece = 0;  ///< from one piece's input or output to the next one's
  };
  std::vector<Layout> layouts_;
  std::vector<Cell> cells_;
  std::size_t may_compare_;  ///< readers, from now on
};

}  // namespace tutti::proof
