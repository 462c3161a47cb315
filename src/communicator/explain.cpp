// How a call would go, in words.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

std::string measured(const PathTrial& trial, std::string_view direct) {
  if (!trial.decided()) return " (not yet measured)\n";
  const std::array names{std::string_view("slots"), std::string_view("past the caches"), direct};
  const PathTrial::Costs times = trial.decided_by();
  std::string text;
  const char* before = " (measured: ";
  for (std::size_t p = 0; p < names.size(); ++p)
    if (times[p] != 0)
      text += fmt::format("{}{} {:.1f} us", std::exchange(before, ", "), names[p], times[p] / 1e3);
  return text + ")\n";
}

std::string explain_own_trial(const Plan& plan) {
  const bool past_caches = plan.own_trial->path(plan.own_presumed) == Path::past_caches;
  return std::string("  through slots, this rank's results stored ") +
         (past_caches ? "past the caches" : "in the caches") + measured(*plan.own_trial, "");
}

// Calls that go by messages, in place or since nobody reaches their buffers, take part, too, since others may
// make them elsewhere: they know no other paths than through slots. `reach`: of this rank's buffers.
std::string explain_trial(const Plan& plan, transport::shm::Reach reach) {
  const bool mapped = plan.mapped && !plan.asks;
  std::string text = mapped ? "  at present: " : "  plain memory: ";
  const Path path = plan.trial->path(plan.presumed);
  const bool direct = path == Path::direct && reach != transport::shm::Reach::none;
  if (direct && mapped && reach == transport::shm::Reach::mapped)
    text += "zero copy";
  else if (direct && plan.attached && (plan.trial->decided() || plan.attach_first))
    text += "by cross-memory attach, " + plan.attached_name;
  else
    text += "through slots of shared memory";
  if (path == Path::past_caches) text += ", results stored past the caches";
  return text + measured(*plan.trial, mapped ? "each other's memory" : "attach");
}

/// `lent`: this rank's buffers may be given to others.
std::string explain_zero_copy(const Plan& plan, const Planner::Setting& setting, bool lent) {
  if (setting.size == 1) return "no: there is no other rank\n";
  if (!setting.shared_memory) return "no: not all ranks share memory\n";
  if (!setting.options->algorithm.empty()) return "no: Options::algorithm forces messages\n";
  if (plan.choice.algorithm == nullptr) return "no: the given schedule sends messages\n";
  if (plan.key.scaled) return "no: what is reduced is a copy of the input, times its factor\n";
  if (!plan.mapped)
    return setting.direct_memory
               ? "no: the call is too small for it to pay, or its operation has no such form\n"
               : "no: no memory was allocated or registered with this communicator\n";
  if (plan.by_messages()) return "no: not in place\n";
  if (!lent) return "no: CUDA has pinned a buffer here, or the kernel lends it to nobody\n";
  return plan.mapped_name + ", if the buffers of all ranks are allocated, registered or in one process" +
         (plan.direct_in_place || plan.key.operation == Operation::all_to_all_v
              ? "\n"
              : ", and no rank's call is in place\n");
}

}  // namespace

std::string Impl::refusals(Rank peer, const transport::Transport& chosen) const {
  if (&chosen == shm.get()) return {};
  if (options.transport == chosen.name())
    return fmt::format(" (shm{} refused: {} is forced)", &chosen == tcp.get() ? " and verbs" : "",
                       options.transport);
  std::string why = shm->explain(peer);
  if (&chosen == tcp.get()) why += "; " + (verbs != nullptr ? verbs->explain(peer) : why_no_verbs.to(peer));
  return " (" + why + ")";
}

Sizes Impl::admit_unmade(const Call& call) {
  ensure_usable();
  const Sizes sizes = check(call, group.rank, group.size, Pointers::may_be_null);
  host_buffers.require_reachable(call, sizes);
  return sizes;
}

std::string Impl::explain(const Call& call) {
  const Sizes sizes = admit_unmade(call);
  std::string text = describe(call) + " on " + std::to_string(group.size) + " ranks\n";
  for (Rank r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    transport::Transport& chosen = routes->to(r);
    text += "  rank " + std::to_string(r) + ": " + std::string(chosen.name()) + ": " + chosen.explain(r);
    text += refusals(r, chosen);
    text += "\n";
  }
  if (is_point_to_point(call)) return text;
  const auto plan = planner->plan(call, sizes);
  text += "  algorithm " + plan->name + ": " + std::string(plan->choice.why) + "; pieces of up to " +
          std::to_string(plan->program.piece) + " bytes a chunk";
  if (plan->whole_blocks)
    text += fmt::format(
        "; blocks of more than {} bytes and less than {} are whole, and their sender may leave them in its "
        "memory",
        execution::whole_block_over, execution::whole_block_end);
  if (plan->copies_input && !plan->key.scaled) text += "; in place: reads a copy of the input";
  text += "\n  zero copy: " + explain_zero_copy(*plan, planner->setting(), host_buffers.plain(call, sizes));
  if (plan->trial) text += explain_trial(*plan, own_buffers(*plan, call, sizes).reach);
  if (plan->own_trial) text += explain_own_trial(*plan);
  return text;
}

}  // namespace tutti::detail
