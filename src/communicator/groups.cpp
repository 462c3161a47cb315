// Communicators from communicators.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

}  // namespace tutti::detail
