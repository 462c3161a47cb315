#include "transport/verbs/window_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <thread>

namespace tutti::transport::verbs {

namespace {

constexpr int sends = 128;                            ///< work requests under way; power of two
constexpr std::chrono::microseconds longest_nap{50};  ///< completions wake nobody here

}  // namespace

WindowMemory::WindowMemory(const WindowAccess& access, Rank target, RemoteAccess::Ask ask)
    : access_(access), target_(target), ask_(std::move(ask)) {}

std::string WindowMemory::explain() const {
  return fmt::format("verbs: RDMA WRITE and READ via {}; atomics by the owner, over tcp", access_.device());
}

void WindowMemory::ensure_connected() {
  if (pair_) return;
  Verbs& calls = access_.verbs();
  QueuePairSetting setting = access_.setting(target_);
  completions_ = CompletionQueue(calls.create_cq(access_.context(), sends + 1, nullptr), {&calls});
  if (!completions_) throw call_error(setting.place, "creating a completion queue", errno);
  setting.completions = completions_.get();
  setting.sends = sends;
  setting.receives = 1;
  auto pair = std::make_unique<QueuePair>(calls, setting);
  totals_ = std::make_unique<verbs::Block>(calls, Domains{access_.domain()}, sends * sizeof(std::uint64_t),
                                           Access::local_read);
  const WindowQuestion mine{pair->address()};
  const auto answer = ask_(std::as_bytes(std::span(&mine, 1)));
  if (answer.size() != sizeof theirs_)
    throw Error(ErrorCode::mismatch, fmt::format("rank {} runs another version of tutti", target_),
                {target_});
  std::memcpy(&theirs_, answer.data(), sizeof theirs_);
  pair->connect(theirs_.address, std::min(access_.reads(), static_cast<int>(theirs_.reads)));
  pair_ = std::move(pair);
}

void WindowMemory::move(std::span<const tutti::Block> blocks, ibv_wr_opcode opcode) {
  ensure_connected();
  for (const tutti::Block& block : blocks) {
    waiting_.push_back({.opcode = opcode, .block = block});
    ++started_;
  }
}

void WindowMemory::notify(std::uint32_t id, std::uint64_t total) {
  ensure_connected();
  const std::size_t word = std::size_t{id} * static_cast<std::size_t>(access_.exposure().size) +
                           static_cast<std::size_t>(access_.exposure().rank);
  waiting_.push_back({.opcode = IBV_WR_RDMA_WRITE,
                      .block = {.remote = word * sizeof total, .bytes = sizeof total},
                      .is_notification = true,
                      .total = total});
  ++started_;
}

// The next work request of an operation, which a port's longest message may divide.
Write WindowMemory::next_write(Waiting& operation) {
  Write write;
  write.opcode = operation.opcode;
  tutti::Block& rest = operation.block;
  const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(rest.bytes, access_.longest_message()));
  write.piece_count = 1;
  write.inlined =
      operation.opcode == IBV_WR_RDMA_WRITE && bytes <= static_cast<std::uint32_t>(pair_->max_inline());
  if (operation.is_notification) {
    write.to = theirs_.counters + rest.remote;
    write.remote_key = theirs_.counters_key;
    write.fenced = reads_under_way_ > 0;
    // As many places as work requests can be under way.
    std::byte* const place = totals_->data() + next_total_++ % sends * sizeof operation.total;
    std::memcpy(place, &operation.total, sizeof operation.total);
    write.pieces[0] = {address_of(place), bytes, totals_->region()->local_key(0)};
  } else {
    write.to = theirs_.memory + rest.remote;
    write.remote_key = theirs_.memory_key;
    write.pieces[0] = {address_of(access_.exposure().memory.data() + rest.local), bytes,
                       access_.memory_key()};
  }
  rest.local += bytes;
  rest.remote += bytes;
  rest.bytes -= bytes;
  write.signalled = operation.ends_call && rest.bytes == 0;
  return write;
}

void WindowMemory::submit() {
  if (!waiting_.empty()) waiting_.back().ends_call = true;
  pump();
}

void WindowMemory::pump() {
  bool added = false;
  while (!waiting_.empty() && pair_->room() > 0) {
    Waiting& operation = waiting_.front();
    const std::uint64_t request = pair_->add(next_write(operation));
    added = true;
    if (operation.block.bytes > 0) continue;
    const bool is_read = operation.opcode == IBV_WR_RDMA_READ;
    reads_under_way_ += is_read ? 1 : 0;
    posted_.push_back({request, is_read});
    waiting_.pop_front();
  }
  if (added) pair_->ring();
}

std::uint64_t WindowMemory::done() {
  if (done_ == started_) return done_;
  std::array<ibv_wc, 16> completions;
  const int count = access_.verbs().poll_cq(completions_.get(), completions.size(), completions.data());
  if (count < 0) throw call_error(access_.setting(target_).place, "polling the completion queue", EIO);
  for (const auto& one : std::span(completions).first(static_cast<std::size_t>(count))) {
    if (one.status != IBV_WC_SUCCESS) {
      const auto setting = access_.setting(target_);
      throw completion_error(setting.place, one.status, one.vendor_err, setting.patience);
    }
    pair_->completed(one.wr_id);
    for (; !posted_.empty() && posted_.front().request <= one.wr_id; posted_.pop_front()) {
      ++done_;
      reads_under_way_ -= posted_.front().is_read ? 1 : 0;
    }
  }
  if (count > 0 && !waiting_.empty()) pump();
  return done_;
}

void WindowMemory::wait(std::chrono::microseconds longest) {
  std::this_thread::sleep_for(std::min(longest, longest_nap));
}

void WindowMemory::fetch_add(std::size_t, std::uint64_t, std::uint64_t*) { assert(has_atomics()); }
void WindowMemory::compare_swap(std::size_t, std::uint64_t, std::uint64_t, std::uint64_t*) {
  assert(has_atomics());
}

}  // namespace tutti::transport::verbs
