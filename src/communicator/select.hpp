/// \file
/// Which algorithm and message size a call takes: what was decided by simulation (src/tuning/decide.hpp),
/// within what the call allows. Figures behind the thresholds of one-sided ways: docs/experiments.md and, of
/// registered memory, docs/performance.md.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tutti/call.hpp>
#include <tutti/schedule.hpp>

#include "collectives/algorithms.hpp"
#include "tuning/choices.hpp"

namespace tutti {

/// What the choice depends on.
struct Circumstances {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;  ///< nccl-tests' size of the call: the larger of input and output
  int ranks = 1;
  std::string_view transport = "shm";  ///< as of tuning::Scene; only what `piece` becomes depends on it
  int node_size = 0;                   ///< ranks a node; 0: nodes are not equal blocks of ranks
  bool uneven = false;                 ///< a v-form
  bool one_sided = false;              ///< peers' buffers can be reached
  bool attach_only = false;            ///< ... but only by cross-memory attach
  bool rank_order = false;
  bool one_fold = false;    ///< of all contributions at once, if the caller does not force another
  std::string_view forced;  ///< algorithm name, or empty
  const tuning::Choices* choices = nullptr;  ///< of all operations; not needed if `one_sided`
  bool measured = false;                     ///< `choices` come of constants that were measured here
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t piece = 0;  ///< bytes of a chunk a message
  std::string_view why;
};

/// Throws Error(invalid_argument) when `forced` names an algorithm of this collective that cannot be used; a
/// name that it does not have is not for it.
Choice select(const Circumstances& call);

/// Whether a result that is rounded after every step would be of little use: 448 is the largest number of
/// fp8_e4m3, and next to 16 is 18.
bool rounds_coarsely(const Call& call);

/// Whether partial results are rounded to the type of the call where they go from one step to the next.
bool rounds_between_steps(const Call& call);

/// Whether this algorithm takes blocks of different sizes; a v-form for which another is forced takes one
/// that does.
bool carries_uneven(std::string_view algorithm);

/// Whether results by this algorithm are those of the one-sided ones, bit for bit.
bool same_as_one_sided(const Algorithm& algorithm);

/// Whether a call takes so long that what ranks tell each other is little beside it. Holds for all or none of
/// the sizes that share a trial (Planner::add_one_sided).
bool takes_long(const Circumstances& call);

/// True when it is worth a trial whether a call of this size gains from reaching plain memory of other
/// processes by cross-memory attach. Long reductions of more than two ranks never do: what is read must be
/// folded from a copy.
bool attach_may_pay(const Circumstances& call);
/// Whether each rank then writes into others' memory, not only reads there: long blocks of a gather, which
/// the root would fetch alone. By attach a rank writes what it has, but not what it folds.
bool writes_by_attach(const Circumstances& call);
/// Which way is taken before it has been tried: what was best on one machine.
bool attach_pays(const Circumstances& call);
/// True when it is worth a trial whether results are better stored past the last cache, of `cache` bytes.
bool streaming_may_pay(const Circumstances& call, std::size_t cache);
/// Whether registered buffers of peers are worth a trial, which they reach without system calls.
bool direct_may_pay(const Circumstances& call);
bool direct_pays(const Circumstances& call);
/// True for calls that gain so much where peers' buffers are registered that ranks ask each other in each
/// call whether they are.
bool direct_surely_pays(const Circumstances& call);

}  // namespace tutti
