// Communicators from communicators.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "bootstrap/frame.hpp"
#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

// Numbers of children differ from each other and from their parent's, on all ranks alike. 48 bits are what
// transports carry.
std::uint64_t child_number(std::uint64_t parent, std::uint64_t count, int color) {
  std::uint64_t h =
      parent * 0x9E3779B97F4A7C15ULL + count * 0xD6E8FEB86659FD93ULL + static_cast<std::uint64_t>(color) + 1;
  h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9ULL;
  return (h ^ (h >> 29)) >> 17;
}

// What happened while a communicator of `members` was made, in the numbers of the one that it is made from.
// Where no member is to blame it happened on this rank alone, there `me`, for which the others wait.
Error in_parent(const Error& error, const std::vector<Rank>& members, Rank me) {
  std::vector<Rank> ranks;
  for (const Rank r : error.ranks())
    if (r >= 0 && r < static_cast<Rank>(members.size()))
      ranks.push_back(members[static_cast<std::size_t>(r)]);
  const bool alone = ranks.empty();
  if (alone) ranks.push_back(members[static_cast<std::size_t>(me)]);
  return {error.code(),
          fmt::format("{}making a communicator of ranks {}, there numbered from 0: {}",
                      alone ? fmt::format("rank {} failed while ", ranks[0]) : "", fmt::join(members, ", "),
                      bootstrap::to_fault(error).text),
          std::move(ranks)};
}

// The reverse, for the others in there; likewise.
Error in_child(const Error& error, const std::vector<Rank>& members, Rank me) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (std::ranges::count(error.ranks(), members[i]) != 0) ranks.push_back(static_cast<Rank>(i));
  if (ranks.empty()) ranks.push_back(me);
  return {error.code(),
          fmt::format("rank {} could not make the communicator: {}", me, bootstrap::to_fault(error).text),
          std::move(ranks)};
}

std::string measured(const PathTrial& trial, std::string_view direct) {
  if (!trial.decided()) return " (not yet measured)\n";
  const std::array names{std::string_view("slots"), std::string_view("past the caches"), direct};
  const PathTrial::Times times = trial.decided_by();
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

// Calls in place that go by messages take part, too, since others may make them elsewhere: they know no other
// paths than through slots.
std::string explain_trial(const Plan& plan) {
  const bool mapped = plan.mapped && !plan.asks;
  std::string text = mapped ? "  at present: " : "  plain memory: ";
  const Path path = plan.trial->path(plan.presumed);
  if (path == Path::direct && !plan.by_messages())
    text += mapped ? "zero copy" : "by cross-memory attach, " + plan.attached_name;
  else
    text += "through slots of shared memory";
  if (path == Path::past_caches) text += ", results stored past the caches";
  return text + measured(*plan.trial, mapped ? "each other's memory" : "attach");
}

std::string explain_zero_copy(const Plan& plan, const Planner::Setting& setting) {
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
  return plan.mapped_name + ", if the buffers of all ranks are allocated, registered or in one process\n";
}

}  // namespace

std::vector<std::vector<std::byte>> Impl::exchange(std::span<const Rank> members,
                                                   std::span<const std::byte> mine) {
  const auto talk = [&](const std::vector<std::pair<const void*, std::size_t>>& out,
                        std::vector<std::vector<std::byte>>& in) {
    std::vector<Call> calls;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == group.rank) continue;
      calls.push_back({.operation = Operation::send,
                       .root = members[i],
                       .in = out[i].first,
                       .count = out[i].second,
                       .within = Within::meeting});
      calls.push_back({.operation = Operation::receive,
                       .root = members[i],
                       .out = in[i].data(),
                       .count = in[i].size(),
                       .within = Within::meeting});
    }
    const auto work = start(calls);
    wait(*work, std::nullopt);
  };
  const std::uint64_t size = mine.size();
  std::vector<std::vector<std::byte>> sizes(members.size(), std::vector<std::byte>(sizeof size)),
      all(members.size());
  talk(std::vector<std::pair<const void*, std::size_t>>(members.size(), {&size, sizeof size}), sizes);
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::uint64_t theirs = size;
    if (members[i] != group.rank) std::memcpy(&theirs, sizes[i].data(), sizeof theirs);
    all[i].resize(theirs);
    if (members[i] == group.rank) all[i].assign(mine.begin(), mine.end());
  }
  talk(std::vector<std::pair<const void*, std::size_t>>(members.size(), {mine.data(), mine.size()}), all);
  return all;
}

std::vector<std::vector<std::byte>> Impl::exchange(std::span<const std::byte> mine) {
  std::vector<Rank> all(static_cast<std::size_t>(group.size));
  std::iota(all.begin(), all.end(), 0);
  return exchange(all, mine);
}

std::uint64_t Impl::next_child(int color) { return child_number(group.communicator, ++children, color); }

std::unique_ptr<Impl> Impl::split(int color, int key, Within within) {
  struct Wish {
    int color, key;
  };
  const Wish mine{color, key};
  std::vector<Wish> wishes(static_cast<std::size_t>(group.size));
  run({.operation = Operation::all_gather,
       .in = &mine,
       .out = wishes.data(),
       .count = sizeof mine,
       .within = within});
  const std::uint64_t number = next_child(color);
  if (color < 0) return nullptr;
  std::vector<Rank> members;
  for (Rank r = 0; r < group.size; ++r)
    if (wishes[static_cast<std::size_t>(r)].color == color) members.push_back(r);
  std::sort(members.begin(), members.end(), [&](Rank a, Rank b) {
    return std::pair(wishes[static_cast<std::size_t>(a)].key, a) <
           std::pair(wishes[static_cast<std::size_t>(b)].key, b);
  });
  transport::Group child;
  child.rank = static_cast<Rank>(std::find(members.begin(), members.end(), group.rank) - members.begin());
  child.size = static_cast<int>(members.size());
  child.communicator = number;
  child.timeout = options.timeout;
  for (const Rank r : members) child.world.push_back(group.world[static_cast<std::size_t>(r)]);
  return make_child(std::move(child), members);
}

std::unique_ptr<Impl> Impl::make_child(transport::Group child, const std::vector<Rank>& members) {
  const std::uint64_t number = child.communicator;
  const Rank me = child.rank;
  bool parent_failed = false;
  const auto of_parent = [&parent_failed](const auto& ask) {
    parent_failed = false;
    try {
      return ask();
    } catch (...) {
      parent_failed = true;
      throw;
    }
  };
  // The others wait for this rank in both.
  const auto fail_both = [&](const Error& failure) {
    const Error error = failure.code() == ErrorCode::peer_lost ? explain_loss(nullptr, failure) : failure;
    watch->session().announce_failure(number, in_child(error, members, me));
    try {
      throw Error(error);
    } catch (...) {
      return fail(nullptr);
    }
  };
  child.all_gather = [&](std::span<const std::byte> bytes) {
    return of_parent([&] { return exchange(members, bytes); });
  };
  child.check_members = [&] {
    of_parent([&] {
      ensure_usable();
      if (const auto error = heard(nullptr)) throw Error(*error);
    });
  };
  try {
    auto impl = std::make_unique<Impl>(watch, listener, std::move(child), options, planner->setting().tuning);
    impl->group.all_gather = nullptr;  // it refers to this function, as the next does
    impl->check_parent = nullptr;
    impl->membership.begin();
    return impl;
  } catch (const Error& error) {
    std::rethrow_exception(fail_both(parent_failed ? error : in_parent(error, members, me)));
  } catch (const std::bad_alloc&) {
    std::rethrow_exception(fail_both(out_of_memory(group.rank)));
  } catch (const std::exception& error) {
    std::rethrow_exception(fail_both(Error(ErrorCode::system, error.what(), {group.rank})));
  }
}

std::string Impl::refusals(Rank peer, const transport::Transport& chosen) const {
  if (&chosen == shm.get()) return {};
  if (options.transport == chosen.name())
    return fmt::format(" (shm{} refused: {} is forced)", &chosen == tcp.get() ? " and verbs" : "",
                       options.transport);
  std::string why = shm->explain(peer);
  if (&chosen == tcp.get()) why += "; " + (verbs != nullptr ? verbs->explain(peer) : why_no_verbs.to(peer));
  return " (" + why + ")";
}

std::string Impl::explain(const Call& call) {
  const Sizes sizes = admit(call);
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
  text += "  algorithm " + plan->name + ": " + std::string(plan->choice.why) + "; pieces of " +
          std::to_string(plan->program.piece) + " bytes a chunk";
  if (plan->copies_input && !plan->key.scaled) text += "; in place: reads a copy of the input";
  text += "\n  zero copy: " + explain_zero_copy(*plan, planner->setting());
  if (plan->trial) text += explain_trial(*plan);
  if (plan->own_trial) text += explain_own_trial(*plan);
  return text;
}

}  // namespace tutti::detail
