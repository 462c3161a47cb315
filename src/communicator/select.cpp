#include "communicator/select.hpp"

#include <tutti/error.hpp>

#include "collectives/facts.hpp"
#include "kernels/fold.hpp"
#include "tuning/pieces.hpp"

namespace tutti {

namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

std::size_t piece_of(const Circumstances& call) {
  // While a rank is at work on a piece nobody sees that it moves, nor gets buffers back; but memcpy stores
  // past the caches only what is long. What is folded after reading it goes through a buffer of one piece a
  // rank.
  if (call.one_sided) return call.attach_only && reduces(call.collective) ? 256 * KiB : 32 * MiB;
  return tuning::piece(call.collective, call.bytes, call.ranks, call.transport);
}

// Where ranks may write into each other's memory, all share the work of each call. Of a short broadcast the
// work is less than telling everybody that everybody has come.
std::string_view one_sided_choice(const Circumstances& call) {
  const bool tells = call.collective == Collective::broadcast && call.ranks > 2 && call.bytes < 256 * KiB;
  const bool pushes = find_algorithm(call.collective, "direct") != nullptr &&
                      (!call.attach_only || writes_by_attach(call)) && !call.uneven && !tells;
  return pushes ? "direct" : "direct_pull";
}

bool usable(const Algorithm& algorithm, const Circumstances& call) {
  return algorithm.one_sided == call.one_sided &&
         (!call.attach_only || !algorithm.writes_peers || writes_by_attach(call));
}

// Those that fold everything at once, where all of it meets: the expression is then ((r0 + r1) + r2) + ...
bool keeps_rank_order(std::string_view algorithm) {
  return algorithm == "all_pairs" || algorithm == "two_shot" || algorithm == "direct" ||
         algorithm == "direct_pull";
}

}  // namespace

bool rounds_between_steps(const Call& call) {
  const ReduceOp op = call.reduction.op;
  const bool small = call.type == DataType::float16 || call.type == DataType::bfloat16 ||
                     call.type == DataType::fp8_e4m3 || call.type == DataType::fp8_e5m2;
  return small && op != ReduceOp::min && op != ReduceOp::max;
}

bool rounds_coarsely(const Call& call) { return rounds_between_steps(call) && size_of(call.type) == 1; }

Choice select(const Circumstances& call) {
  std::string_view wanted;
  std::string_view why = "peers' buffers are reached directly";
  if (call.one_sided) {
    wanted = one_sided_choice(call);
  } else {
    wanted = call.choices->of(call.collective, call.bytes)->name;
    why = call.measured ? "the fastest by simulation with this machine's constants"
                        : "the fastest by simulation with default constants";
  }
  if ((call.rank_order || call.one_fold) && reduces(call.collective) && !keeps_rank_order(wanted)) {
    wanted = call.collective == Collective::all_reduce ? "two_shot" : "all_pairs";
    why = call.rank_order ? "the order of reduction is fixed" : "what is reduced is rounded only once";
  }
  if (!call.forced.empty() && !call.one_sided) {
    if (const Algorithm* forced = find_algorithm(call.collective, call.forced)) {
      if (forced->one_sided)
        throw Error(ErrorCode::invalid_argument,
                    "algorithm " + std::string(call.forced) +
                        " cannot be forced: it is taken when all buffers can be reached");
      if (call.rank_order && reduces(call.collective) && !keeps_rank_order(call.forced))
        throw Error(ErrorCode::invalid_argument,
                    "algorithm " + std::string(call.forced) + " does not reduce in rank order");
      if (forced->by_nodes != nullptr && call.node_size == 0)
        throw Error(ErrorCode::invalid_argument,
                    "algorithm " + std::string(call.forced) +
                        " needs hosts with equally many consecutive ranks; say what a node is with "
                        "TUTTI_NODE_SIZE or start ranks host by host");
      wanted = call.forced;
      why = "forced";
    }
  }
  if (call.uneven && !carries_uneven(wanted)) {
    wanted = call.collective == Collective::all_to_all ? "pairwise" : "all_pairs";
    why = "blocks of different sizes";
  }
  const Algorithm* algorithm = find_algorithm(call.collective, wanted);
  if (algorithm == nullptr || !usable(*algorithm, call)) return {};
  return {algorithm, piece_of(call), why};
}

// Those whose every step names one block of the caller's at a time.
bool carries_uneven(std::string_view algorithm) {
  return algorithm == "all_pairs" || algorithm == "ring" || algorithm == "pairwise" ||
         algorithm == "exchange" || algorithm == "direct_pull";
}

bool same_as_one_sided(const Algorithm& algorithm) {
  return !reduces(algorithm.collective) || keeps_rank_order(algorithm.name);
}

bool takes_long(const Circumstances& call) {
  return call.bytes * static_cast<std::size_t>(call.ranks) >= 16 * MiB;
}

bool attach_may_pay(const Circumstances& call) {
  if (call.ranks > 2 && takes_long(call) && reduces(call.collective)) return false;
  return call.bytes >= 16 * KiB && call.collective != Collective::barrier;
}

// What is written lies in its writer's cache afterwards, and the root most likely reads it next
// (docs/experiments.md).
bool writes_by_attach(const Circumstances& call) {
  return call.collective == Collective::gather && call.bytes >= MiB;
}

bool attach_pays(const Circumstances& call) {
  if (kernels::block_copies_win()) return false;
  const bool pair = call.ranks == 2;
  switch (call.collective) {
    case Collective::all_gather:
      return pair && call.bytes >= 32 * KiB && call.bytes < 4 * MiB;
    case Collective::all_to_all:
      return pair ? call.bytes >= 32 * KiB && call.bytes < 4 * MiB : call.bytes >= 192 * KiB;
    default:
      return false;
  }
}

bool streaming_may_pay(const Circumstances& call, std::size_t cache) {
  return call.collective != Collective::barrier && call.bytes >= cache / static_cast<std::size_t>(call.ranks);
}

bool direct_may_pay(const Circumstances& call) {
  return call.bytes >= 16 * KiB && call.collective != Collective::barrier;
}

// What ranks must tell each other costs a few round trips, and as many changes of who works where they share
// processors.
bool direct_pays(const Circumstances& call) {
  const std::size_t from = (call.ranks == 2 ? 32 : 128) * KiB;
  switch (call.collective) {
    case Collective::all_reduce:
      return call.bytes >= from / 2;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
      return call.bytes >= from * 2;
    default:
      return call.bytes >= from;
  }
}

bool direct_surely_pays(const Circumstances& call) { return call.bytes >= 512 * KiB; }

}  // namespace tutti
