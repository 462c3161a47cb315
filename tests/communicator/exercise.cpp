#include "communicator/exercise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "communicator/reference.hpp"

namespace tutti::test {

namespace {

constexpr std::size_t guard = 64;
constexpr std::byte untouched{0xA5};

// Packed, or (odd seeds) in reverse order with gaps.
std::vector<std::size_t> displacements(const std::vector<std::size_t>& counts, std::uint32_t seed) {
  if (seed % 2 == 0) return {};
  std::vector<std::size_t> at(counts.size());
  std::size_t next = 1;
  for (std::size_t r = counts.size(); r-- > 0;) {
    at[r] = next;
    next += counts[r] + r % 3;
  }
  return at;
}

std::size_t place_of(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& at,
                     std::size_t rank) {
  if (!at.empty()) return at[rank];
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
}

std::size_t extent(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& at) {
  std::size_t end = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) end = std::max(end, place_of(counts, at, r) + counts[r]);
  return end;
}

// At once, as the comparison below: sanitizers look at every access.
void copy(std::span<const std::byte> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// want.size(): none.
std::size_t first_difference(const void* got, std::span<const std::byte> want) {
  if (want.empty() || std::memcmp(got, want.data(), want.size()) == 0) return want.size();
  const auto* bytes = static_cast<const std::byte*>(got);
  return static_cast<std::size_t>(std::ranges::mismatch(want, std::span(bytes, want.size())).in1 -
                                  want.begin());
}

}  // namespace

std::string to_string(const Exercise& e) {
  return std::string(name(e.operation)) + " count " + std::to_string(e.count) + " " +
         std::string(name(e.type)) + " " + std::string(name(e.reduction.op)) + " root " +
         std::to_string(e.root) + " seed " + std::to_string(e.seed) + (e.in_place ? " in place" : "") +
         (e.factors.empty() ? "" : " scaled");
}

std::span<const Operation> data_operations() {
  using enum Operation;
  static constexpr std::array all{all_reduce,   reduce,           reduce_scatter, all_gather,
                                  broadcast,    gather,           scatter,        all_to_all,
                                  all_gather_v, reduce_scatter_v, all_to_all_v};
  return all;
}

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter || operation == Operation::reduce_scatter_v;
}

bool has_root(Operation operation) {
  return operation == Operation::reduce || operation == Operation::broadcast ||
         operation == Operation::gather || operation == Operation::scatter;
}

bool can_be_in_place(Operation operation) { return operation != Operation::all_to_all_v; }

Trial::Trial(const Exercise& exercise, Rank rank, int size)
    : exercise_(exercise), rank_(rank), size_(size), element_(size_of(exercise.type)) {
  describe_call();
  in_memory_.assign(in_count_ * element_ + 2 * guard, untouched);
  out_memory_.assign(out_count_ * element_ + 2 * guard, untouched);
  place(in_memory_.data() + guard, out_memory_.data() + guard);
}

Trial::Trial(const Exercise& exercise, Rank rank, int size, std::byte* in, std::byte* out)
    : exercise_(exercise), rank_(rank), size_(size), element_(size_of(exercise.type)) {
  describe_call();
  std::fill_n(in, in_count_ * element_, untouched);
  std::fill_n(out, out_count_ * element_, untouched);
  place(in, out);
}

std::vector<std::size_t> Trial::counts_between(Rank rank, bool outgoing) const {
  std::vector<std::size_t> counts;
  for (Rank peer = 0; peer < size_; ++peer) {
    const auto from = static_cast<std::uint32_t>(outgoing ? rank : peer);
    const auto to = static_cast<std::uint32_t>(outgoing ? peer : rank);
    counts.push_back(mix(mix(exercise_.seed, from + 1), to + 77) % (2 * exercise_.count + 1));
  }
  return counts;
}

void Trial::describe_call() {
  const auto n = static_cast<std::size_t>(size_), r = static_cast<std::size_t>(rank_);
  const std::size_t one = exercise_.count, all = one * n;
  const bool root = rank_ == exercise_.root;
  call_ = {.operation = exercise_.operation,
           .type = exercise_.type,
           .reduction = exercise_.reduction,
           .root = exercise_.root,
           .count = one};
  if (!exercise_.factors.empty()) call_.reduction = Reduction(exercise_.reduction.op, exercise_.factors[r]);
  const auto sizes = [&](std::size_t in, std::size_t out, std::size_t part) {
    in_count_ = in;
    out_count_ = out;
    part_at_ = part;
  };
  switch (exercise_.operation) {
    case Operation::all_reduce:
      return sizes(one, one, 0);
    case Operation::reduce:
      return sizes(one, root ? one : 0, 0);
    case Operation::reduce_scatter:
      return sizes(all, one, r * one);
    case Operation::all_gather:
      return sizes(one, all, r * one);
    case Operation::broadcast:
      return sizes(root ? one : 0, one, 0);
    case Operation::gather:
      return sizes(one, root ? all : 0, r * one);
    case Operation::scatter:
      return sizes(root ? all : 0, one, r * one);
    case Operation::all_to_all:
      return sizes(all, all, 0);
    case Operation::all_gather_v:
      call_.count = 0;
      out_counts_ = counts_between(0, true);  // the same on all ranks
      out_displacements_ = displacements(out_counts_, exercise_.seed);
      return sizes(out_counts_[r], extent(out_counts_, out_displacements_),
                   place_of(out_counts_, out_displacements_, r));
    case Operation::reduce_scatter_v:
      call_.count = 0;
      in_counts_ = counts_between(0, true);
      in_displacements_ = displacements(in_counts_, exercise_.seed);
      return sizes(extent(in_counts_, in_displacements_), in_counts_[r],
                   place_of(in_counts_, in_displacements_, r));
    case Operation::all_to_all_v:
      call_.count = 0;
      in_counts_ = counts_between(rank_, true);
      out_counts_ = counts_between(rank_, false);
      in_displacements_ = displacements(in_counts_, exercise_.seed);
      out_displacements_ = displacements(out_counts_, exercise_.seed + static_cast<std::uint32_t>(rank_) % 2);
      return sizes(extent(in_counts_, in_displacements_), extent(out_counts_, out_displacements_), 0);
    default:
      return sizes(0, 0, 0);
  }
}

void Trial::place(std::byte* in, std::byte* out) {
  if (exercise_.in_place && in_count_ != 0 && out_count_ != 0) {
    if (in_count_ >= out_count_) {
      out = in + part_at_ * element_;
      shared_first_ = part_at_;
      shared_end_ = part_at_ + out_count_;
    } else {
      in = out + part_at_ * element_;
      shared_end_ = in_count_;
    }
  }
  // A rank that has no such buffer may pass nothing; what it passes (odd seeds) is neither read nor written.
  const bool nothing = exercise_.seed % 2 == 0;
  call_.in = in_count_ == 0 && nothing ? nullptr : in;
  call_.out = out_count_ == 0 && nothing ? nullptr : out;
  call_.in_counts = in_counts_;
  call_.in_displacements = in_displacements_;
  call_.out_counts = out_counts_;
  call_.out_displacements = out_displacements_;
  fill();
}

void Trial::fill() const { copy(inputs(exercise_, rank_, 0, in_count_), const_cast<void*>(call_.in)); }

std::vector<Trial::Block> Trial::blocks() const {
  const auto r = static_cast<std::size_t>(rank_);
  const std::size_t one = exercise_.count;
  std::vector<Block> result;
  switch (exercise_.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      if (out_count_ != 0) result.push_back({-1, 0, 0, one});
      break;
    case Operation::reduce_scatter:
      result.push_back({-1, r * one, 0, one});
      break;
    case Operation::broadcast:
      result.push_back({exercise_.root, 0, 0, one});
      break;
    case Operation::scatter:
      result.push_back({exercise_.root, r * one, 0, one});
      break;
    case Operation::reduce_scatter_v:
      result.push_back({-1, part_at_, 0, in_counts_[r]});
      break;
    case Operation::all_gather:
    case Operation::gather:
      if (out_count_ != 0)
        for (Rank s = 0; s < size_; ++s) result.push_back({s, 0, static_cast<std::size_t>(s) * one, one});
      break;
    case Operation::all_to_all:
      for (Rank s = 0; s < size_; ++s) result.push_back({s, r * one, static_cast<std::size_t>(s) * one, one});
      break;
    case Operation::all_gather_v:
      for (std::size_t s = 0; s < out_counts_.size(); ++s)
        result.push_back(
            {static_cast<Rank>(s), 0, place_of(out_counts_, out_displacements_, s), out_counts_[s]});
      break;
    case Operation::all_to_all_v:
      for (std::size_t s = 0; s < out_counts_.size(); ++s) {
        const auto theirs = counts_between(static_cast<Rank>(s), true);
        result.push_back({static_cast<Rank>(s), place_of(theirs, displacements(theirs, exercise_.seed), r),
                          place_of(out_counts_, out_displacements_, s), theirs[r]});
      }
      break;
    default:
      break;
  }
  return result;
}

// The whole output, with the pattern where nothing is written; valid as what `inputs` gives.
std::span<const std::byte> Trial::expected() const {
  thread_local std::vector<std::byte> out;
  out.assign(out_count_ * element_, untouched);
  for (const Block& block : blocks())
    copy(block.from < 0 ? reductions(exercise_, size_, block.source, block.count)
                        : inputs(exercise_, block.from, block.source, block.count),
         out.data() + block.target * element_);
  return out;
}

std::string Trial::wrong() const {
  const auto where =
      " on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " + to_string(exercise_);
  const auto want = expected();
  if (const std::size_t i = first_difference(call_.out, want); i < want.size())
    return "element " + std::to_string(i / element_) + " is wrong" + where;
  const auto intact = [](const std::vector<std::byte>& memory) {
    const auto is_untouched = [](std::byte b) { return b == untouched; };
    return memory.empty() || (std::all_of(memory.begin(), memory.begin() + guard, is_untouched) &&
                              std::all_of(memory.end() - guard, memory.end(), is_untouched));
  };
  if (!intact(in_memory_) || !intact(out_memory_)) return "memory next to a buffer was written" + where;
  // All but what the output lies over.
  for (const auto& [first, end] : {std::pair(std::size_t{0}, shared_first_), {shared_end_, in_count_}}) {
    const auto input = inputs(exercise_, rank_, first, end - first);
    const auto* in = static_cast<const std::byte*>(call_.in) + first * element_;
    if (const std::size_t i = first_difference(in, input); i < input.size())
      return "input element " + std::to_string(first + i / element_) + " was changed" + where;
  }
  return "";
}

void expect_right(Communicator& comm, const Exercise& exercise) {
  const Trial trial(exercise, comm.rank(), comm.size());
  issue(comm, trial.call());
  EXPECT_EQ(trial.wrong(), "");
}

}  // namespace tutti::test
