#include <tutti/verify.hpp>

#include <fmt/format.h>

#include "collectives/facts.hpp"
#include "collectives/verify/contract.hpp"
#include "collectives/verify/memory.hpp"
#include "collectives/verify/run.hpp"
#include "collectives/verify/shape.hpp"

namespace tutti {
namespace {

template <class Visit>
std::optional<Fault> for_each_output(const Schedule& schedule, int pieces, Visit visit) {
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    for (int piece = 0; piece < pieces; ++piece) {
      for (int chunk = 0; chunk < proof::chunks_of(schedule, rank, Space::output); ++chunk) {
        if (auto fault = visit(rank, piece, chunk)) return fault;
      }
    }
  }
  return std::nullopt;
}

std::optional<Fault> check_results(const Schedule& schedule, int pieces, const proof::Contract& contract,
                                   const proof::Memory& memory) {
  return for_each_output(schedule, pieces, [&](Rank rank, int piece, int chunk) -> std::optional<Fault> {
    const proof::Value wanted = contract.expected(rank, chunk, piece);
    const proof::Value& found = memory.peek(memory.at(out(chunk), rank, piece));
    if (found.holds_same(wanted) && found.finished == wanted.finished) return std::nullopt;
    return Fault{fmt::format("output chunk {} {}", chunk,
                             found.defined() ? "holds the wrong data at the end" : "is never written"),
                 rank};
  });
}

/// Collectives that reduce nothing copy, and a copy is the same everywhere and in any order.
Proof findings(const Schedule& schedule, int pieces, const proof::Contract& contract,
               const proof::Memory& memory) {
  Proof proof{true, true, true};
  if (!reduces(schedule.collective)) return proof;
  for_each_output(schedule, pieces, [&](Rank rank, int piece, int chunk) -> std::optional<Fault> {
    const proof::Value& value = memory.peek(memory.at(out(chunk), rank, piece));
    proof::Value wanted = contract.expected(rank, chunk, piece);
    proof.rank_order = proof.rank_order && value.order == wanted.order;
    if (schedule.ranks > 1) proof::round(wanted);
    proof.one_fold = proof.one_fold && value.expression == wanted.expression;
    if (schedule.collective == Collective::all_reduce) {
      const proof::Value& first = memory.peek(memory.at(out(chunk), 0, piece));
      proof.same_everywhere = proof.same_everywhere && value.expression == first.expression;
    }
    return std::nullopt;
  });
  return proof;
}

}  // namespace

std::string to_string(const Fault& fault) {
  std::string where;
  if (fault.rank >= 0) where += fmt::format("rank {}", fault.rank);
  if (fault.lane >= 0) where += fmt::format(", lane {}", fault.lane);
  if (fault.step >= 0) where += fmt::format(", step {}", fault.step);
  return where.empty() ? fault.what : where + ": " + fault.what;
}

std::optional<Fault> verify(const Schedule& schedule, const VerifyOptions& options, Proof* proof) {
  if (auto fault = proof::check_header(schedule, options)) return fault;
  VerifyOptions as_run = options;
  // It has no data to cut: what takes several rounds until everybody has heard of everybody is no barrier.
  if (schedule.collective == Collective::barrier) as_run.pieces = 1;
  proof::Memory memory(schedule, as_run);
  if (auto fault = proof::check_steps(schedule, memory)) return fault;
  const proof::Contract contract(schedule, as_run.pieces);
  if (auto fault = proof::Run(schedule, as_run, contract, memory).run()) return fault;
  if (auto fault = check_results(schedule, as_run.pieces, contract, memory)) return fault;
  if (proof != nullptr) *proof = findings(schedule, as_run.pieces, contract, memory);
  return std::nullopt;
}

}  // namespace tutti
