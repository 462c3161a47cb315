// What each rank of this host is doing, in shared memory: a few words a call, read only when something is
// wrong.
#include <algorithm>

#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

using transport::shm::call_log_entries;
using transport::shm::CallCounts;
using transport::shm::CallEntry;
using transport::shm::counts_log_entries;

/// Of a v-form: what all ranks know alike, or, between two, what this one sends.
std::span<const std::size_t> told(const Call& call) {
  return call.in_counts.empty() ? call.out_counts : call.in_counts;
}

std::uint32_t order_of(const CallEntry& entry) {
  return static_cast<std::uint32_t>(entry.order_and_root.load(std::memory_order_acquire) >> 32);
}

// Modulo 2^32; those of one log are close to each other.
bool is_earlier(std::uint32_t order, std::uint32_t than) {
  return static_cast<std::int32_t>(order - than) < 0;
}

bool is_older(const CallEntry& a, const CallEntry& b) { return is_earlier(order_of(a), order_of(b)); }

}  // namespace

LoggedForm Impl::loggable(const Call& call) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {
      word(call.within) << 24 | word(call.operation) << 16 | word(call.type) << 8 | word(call.reduction.op),
      has_counts(call) ? sum_of(told(call)) : call.count};
}

void Impl::log_call(const Task& task) {
  // Sends and receives are numbered by pair; they share the ring with the calls of everybody.
  const std::uint64_t number = task.plan == nullptr ? task.sequence << 1 | 1 : task.sequence << 1;
  const std::uint64_t order = ++calls_logged;
  CallEntry& entry = call_log->calls[order % call_log_entries];
  // A reader that sees any of what follows sees the 0, too, or what is stored last.
  entry.sequence.store(0, std::memory_order_relaxed);
  entry.tag_and_kind.store(static_cast<std::uint64_t>(task.tag) << 32 | task.logged.kind,
                           std::memory_order_release);
  entry.count.store(task.logged.elements, std::memory_order_release);
  entry.order_and_root.store(order << 32 | static_cast<std::uint32_t>(task.call.root),
                             std::memory_order_release);
  if (task.counted) [[unlikely]]
    log_counts(order, task.call);
  entry.sequence.store(number, std::memory_order_release);
}

void Impl::log_counts(std::uint64_t order, const Call& call) {
  CallCounts& entry = call_log->counts[order % counts_log_entries];
  entry.order.store(0, std::memory_order_relaxed);
  const auto counts = told(call);
  for (std::size_t i = 0; i < std::min(counts.size(), std::size(entry.first)); ++i)
    entry.first[i].store(counts[i], std::memory_order_release);
  entry.order.store(order, std::memory_order_release);
}

std::vector<Impl::LoggedCall> Impl::logged_calls(Rank rank) const {
  std::vector<LoggedCall> calls;
  if (!shm->reaches(rank)) return calls;
  calls.reserve(call_log_entries);
  const auto& log = shm->control(rank).calls;
  const auto newest = std::max_element(std::begin(log), std::end(log), is_older) - std::begin(log);
  const std::uint32_t last = order_of(log[newest]);
  for (std::uint64_t i = 1; i <= call_log_entries; ++i) {
    const CallEntry& entry = log[(static_cast<std::uint64_t>(newest) + i) % call_log_entries];
    const std::uint64_t number = entry.sequence.load(std::memory_order_acquire);
    const std::uint64_t tag_and_kind = entry.tag_and_kind.load(std::memory_order_acquire);
    const std::uint64_t elements = entry.count.load(std::memory_order_acquire);
    const std::uint64_t order_and_root = entry.order_and_root.load(std::memory_order_acquire);
    if (number == 0 || entry.sequence.load(std::memory_order_relaxed) != number) continue;
    const auto order = static_cast<std::uint32_t>(order_and_root >> 32);
    if (is_earlier(last, order)) continue;  // its rank has gone on meanwhile
    LoggedCall& call = calls.emplace_back();
    call.sequence = (number & 1) != 0 ? 0 : number >> 1;
    call.form = {tag_and_kind & 0xffffffff, elements};
    call.root = static_cast<Rank>(static_cast<std::uint32_t>(order_and_root));
    call.order = order;
    call.tag = static_cast<std::uint32_t>(tag_and_kind >> 32);
  }
  return calls;
}

std::vector<std::size_t> Impl::logged_counts(Rank rank, const LoggedCall& logged) const {
  const CallCounts& entry = shm->control(rank).counts[logged.order % counts_log_entries];
  const std::uint64_t order = entry.order.load(std::memory_order_acquire);
  std::vector<std::size_t> counts(static_cast<std::size_t>(group.size));
  const std::size_t known = std::min(counts.size(), std::size(entry.first));
  for (std::size_t i = 0; i < known; ++i) counts[i] = entry.first[i].load(std::memory_order_acquire);
  if (order == 0 || static_cast<std::uint32_t>(order) != logged.order ||
      entry.order.load(std::memory_order_relaxed) != order)
    return {};
  if (known < counts.size()) counts[known] = logged.form.elements - sum_of(counts);
  return counts;
}

std::string Impl::describe_logged(Rank rank, const LoggedCall& logged) const {
  const std::uint64_t kind = logged.form.kind;
  Call call;
  call.within = static_cast<Within>(kind >> 24 & 0xff);
  call.operation = logged.operation();
  call.type = static_cast<DataType>(kind >> 8 & 0xff);
  call.reduction = static_cast<ReduceOp>(kind & 0xff);
  call.root = logged.root;
  call.count = logged.form.elements;
  std::vector<std::size_t> counts;
  if (call.within == Within::nothing && is_counted(call.operation)) {
    counts = logged_counts(rank, logged);
    if (counts.empty()) counts = {call.count};  // what is left of them: their sum
    (call.operation == Operation::all_gather_v ? call.out_counts : call.in_counts) = counts;
  }
  return describe(call);
}

std::string Impl::doing(Rank rank) const {
  if (!shm->reaches(rank)) return "";
  const auto calls = logged_calls(rank);
  const bool collective = !calls.empty() && calls.back().sequence != 0;
  if (calls.empty() || (collective && calls.back().sequence <= warm_up_calls))
    return "has called nothing on this communicator yet";
  const LoggedCall& last = calls.back();
  return "last call on this communicator: " + describe_logged(rank, last) +
         (collective ? " #" + std::to_string(last.sequence - warm_up_calls) : "");
}

}  // namespace tutti::detail
