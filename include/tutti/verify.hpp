/// \file
/// The proof that a schedule does what its collective promises, on every timing. Any thread may ask for one.
#pragma once

#include <optional>
#include <string>

#include <tutti/schedule.hpp>

namespace tutti {

/// What a schedule is proved under.
struct VerifyOptions {
  int credits = 0;  ///< messages a FIFO holds; 0: `schedule.credits`
  /// How often every lane runs its steps (scratch is shared by all runs). Those of a barrier run once.
  int pieces = 1;
  /// Input and output share memory where the collective allows it. What holds on all ranks in place and on
  /// all out of place holds on some in place, too.
  bool in_place = false;
  bool views = false;  ///< a message is a view of the sender's memory, read until the receiver's step has run
};

/// Where and why a proof failed. `step` counts within the lane, over all pieces.
struct Fault {
  std::string what;
  Rank rank = -1;
  int lane = -1;
  int step = -1;
};
/// "rank 1, lane 0, step 3: ..."
std::string to_string(const Fault& fault);

/// What a proof found out.
struct Proof {
  bool same_everywhere =
      false;  ///< every rank computes each element by the same expression: bitwise equal results
  bool rank_order = false;  ///< that expression is ((r0 + r1) + r2) + ..., whatever the algorithm
  bool one_fold = false;    ///< ... in one step: 8- and 16-bit floats are rounded once
};

/// Runs the schedule once on symbolic values, with vector clocks. Lanes that meet only at FIFOs are a Kahn
/// network (Kahn 1974): without races one run proves all runs. Finds: wrong data, a contribution folded in
/// twice, reads of undefined chunks, races between lanes and between ranks, deadlock with the given credits,
/// messages never received or of another size, a misplaced `complete`. Returns the first fault, or none. Does
/// not throw on bad schedules, whatever they contain. Time: about steps x lanes x ranks; what would take
/// minutes, or some gigabytes, is refused as too large to prove. `proof`, when given, is filled in on
/// success.
[[nodiscard]] std::optional<Fault> verify(const Schedule& schedule, const VerifyOptions& options = {},
                                          Proof* proof = nullptr);

}  // namespace tutti
