// What each rank of this host is doing, in shared memory: a few words a call, read only when something is
// wrong.
#include <algorithm>
#include <numeric>

#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

using transport::shm::call_log_entries;
using transport::shm::CallEntry;

/// Of a v-form: what all ranks know alike, or, between two, what this one sends.
std::span<const std::size_t> told(const Call& call) {
  return call.in_counts.empty() ? call.out_counts : call.in_counts;
}

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

LoggedForm Impl::loggable(const Call& call) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {
      word(call.within) << 24 | word(call.operation) << 16 | word(call.type) << 8 | word(call.reduction.op),
      has_counts(call) ? sum(told(call)) : call.count};
}

void Impl::log_call(const Task& task) {
  // Sends and receives are numbered by pair; they share the ring with the calls of everybody.
  const std::uint64_t number = task.plan == nullptr ? task.sequence << 1 | 1 : task.sequence << 1;
  CallEntry& entry = call_log[logged % call_log_entries];
  // A reader that sees any of what follows sees the 0, too, or what is stored last.
  entry.sequence.store(0, std::memory_order_relaxed);
  entry.tag_and_kind.store(static_cast<std::uint64_t>(task.tag) << 32 | task.logged.kind,
                           std::memory_order_release);
  entry.count.store(task.logged.elements, std::memory_order_release);
  entry.root.store(static_cast<std::uint64_t>(task.call.root), std::memory_order_release);
  entry.order.store(logged++, std::memory_order_release);
  if (task.counted) [[unlikely]] {
    const auto counts = told(task.call);
    for (std::size_t i = 0; i < std::min(counts.size(), std::size(entry.counts)); ++i)
      entry.counts[i].store(counts[i], std::memory_order_release);
  }
  entry.sequence.store(number, std::memory_order_release);
}

std::vector<Impl::LoggedCall> Impl::logged_calls(Rank rank) const {
  std::vector<LoggedCall> calls;
  if (!shm->reaches(rank)) return calls;
  for (const CallEntry& entry : shm->control(rank).calls) {
    const std::uint64_t number = entry.sequence.load(std::memory_order_acquire);
    const std::uint64_t kind = entry.tag_and_kind.load(std::memory_order_acquire);
    Call call;
    call.within = static_cast<Within>(kind >> 24 & 0xff);
    call.operation = static_cast<Operation>(kind >> 16 & 0xff);
    call.type = static_cast<DataType>(kind >> 8 & 0xff);
    call.reduction = static_cast<ReduceOp>(kind & 0xff);
    call.count = entry.count.load(std::memory_order_acquire);
    call.root = static_cast<Rank>(entry.root.load(std::memory_order_acquire));
    const std::uint64_t order = entry.order.load(std::memory_order_acquire);
    std::vector<std::size_t> counts;
    if (call.within == Within::nothing && is_counted(call.operation)) {
      counts.resize(static_cast<std::size_t>(group.size));
      for (std::size_t i = 0; i < std::min(counts.size(), std::size(entry.counts)); ++i)
        counts[i] = entry.counts[i].load(std::memory_order_acquire);
      if (counts.size() > std::size(entry.counts)) counts[std::size(entry.counts)] = call.count - sum(counts);
      (call.operation == Operation::all_gather_v ? call.out_counts : call.in_counts) = counts;
    }
    if (number == 0 || entry.sequence.load(std::memory_order_relaxed) != number) continue;
    const std::uint64_t place = number & 1 ? 0 : number >> 1;
    calls.push_back({place, call.operation, call.root, order, static_cast<std::uint32_t>(kind >> 32),
                     describe(call), std::move(counts)});
  }
  std::sort(calls.begin(), calls.end(),
            [](const LoggedCall& a, const LoggedCall& b) { return a.sequence < b.sequence; });
  return calls;
}

std::string Impl::doing(Rank rank) const {
  if (!shm->reaches(rank)) return "";
  const auto calls = logged_calls(rank);
  const auto last = std::max_element(
      calls.begin(), calls.end(), [](const LoggedCall& a, const LoggedCall& b) { return a.order < b.order; });
  const bool collective = last != calls.end() && last->sequence != 0;
  if (last == calls.end() || (collective && last->sequence <= warm_up_calls))
    return " (has called nothing yet)";
  return " (last called " + last->text +
         (collective ? " #" + std::to_string(last->sequence - warm_up_calls) : "") + ")";
}

}  // namespace tutti::detail
