#include "transport/verbs/window_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include <tutti/error.hpp>

#include "bootstrap/frame.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int sends = 128;                            ///< work requests under way; power of two
constexpr std::chrono::microseconds longest_nap{50};  ///< completions wake nobody here

}  // namespace

WindowMemory::WindowMemory(WindowAccess& access, Rank target, RemoteAccess::Ask ask)
    : access_(access), target_(target), ask_(std::move(ask)) {}

std::string WindowMemory::explain() const {
  return fmt::format("verbs: RDMA WRITE and READ via {}; atomics by the owner, over tcp", access_.device());
}

void WindowMemory::ensure_connected() {
  if (pair_) return;
  try {
    connect();
  } catch (const Error& error) {
    throw bootstrap::while_connecting(error, "", access_.exposure().rank, target_);
  }
}

void WindowMemory::connect() {
  access_.check(target_);
  Verbs& calls = access_.verbs();
  QueuePairSetting setting = access_.setting(target_);
  completions_ = CompletionQueue(made(calls.create_cq(access_.context(), sends + 1, nullptr), setting.place,
                                      "creating a completion queue"),
                                 {&calls});
  setting.completions = completions_.get();
  setting.sends = sends;
  setting.receives = 1;
  auto pair = std::make_unique<QueuePair>(calls, setting);
  totals_ = std::make_unique<verbs::Block>(calls, Domains{access_.domain()}, sends * sizeof(std::uint64_t),
                                           Access::local_read);
  returned_ = std::make_unique<verbs::Block>(calls, Domains{access_.domain()}, sizeof(std::uint64_t),
                                             Access::remote_write);
  const WindowQuestion mine{pair->address(), address_of(returned_->data()),
                            returned_->region()->remote_key(0)};
  const auto answer = ask_(std::as_bytes(std::span(&mine, 1)));
  if (answer.size() != sizeof theirs_)
    throw Error(ErrorCode::mismatch, fmt::format("rank {} runs another version of tutti", target_),
                {target_});
  std::memcpy(&theirs_, answer.data(), sizeof theirs_);
  pair->connect_patiently(theirs_.address, std::min(access_.reads(), static_cast<int>(theirs_.reads)));
  pair_ = std::move(pair);
}

void WindowMemory::move(std::span<const tutti::Block> blocks, ibv_wr_opcode opcode) {
  ensure_connected();
  for (const tutti::Block& block : blocks) {
    waiting_.push_back({.opcode = opcode, .block = block});
    ++started_;
  }
}

void WindowMemory::notify(std::uint32_t id) {
  ensure_connected();
  if (may_signal())
    signal(id);
  else
    write_total(id);
}

bool WindowMemory::may_signal() const {
  if (access_.signal_for(0) == Signal::send) return false;
  const std::atomic_ref returned(*reinterpret_cast<std::uint64_t*>(returned_->data()));
  return signals_ - returned.load(std::memory_order_acquire) < theirs_.signals;
}

void WindowMemory::signal(std::uint32_t id) {
  ++signals_;
  const bool follows_put =
      !waiting_.empty() && !waiting_.back().ends_call && waiting_.back().opcode == IBV_WR_RDMA_WRITE;
  if (!follows_put || access_.signal_for(waiting_.back().block.bytes) == Signal::separate) {
    waiting_.emplace_back();
    ++started_;
  }
  waiting_.back().opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  waiting_.back().immediate = id;
}

void WindowMemory::write_total(std::uint32_t id) {
  const std::size_t word = std::size_t{id} * static_cast<std::size_t>(access_.exposure().size) +
                           static_cast<std::size_t>(access_.exposure().rank);
  waiting_.push_back({.opcode = IBV_WR_RDMA_WRITE,
                      .block = {.remote = word * sizeof(std::uint64_t), .bytes = sizeof(std::uint64_t)},
                      .is_total = true,
                      .total = ++written_[id]});
  ++started_;
}

// The next work request of an operation, which a port's longest message may divide.
Write WindowMemory::next_write(Waiting& operation) {
  Write write;
  tutti::Block& rest = operation.block;
  const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(rest.bytes, access_.longest_message()));
  const bool signals = operation.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const bool is_last = bytes == rest.bytes;
  write.opcode = signals && !is_last ? IBV_WR_RDMA_WRITE : operation.opcode;
  write.immediate = operation.immediate;
  write.inlined = operation.opcode != IBV_WR_RDMA_READ && bytes > 0 &&
                  bytes <= static_cast<std::uint32_t>(pair_->max_inline());
  write.fenced = (signals || operation.is_total) && reads_under_way_ > 0;
  ibv_sge from{};
  if (operation.is_total) {
    write.to = theirs_.counters + rest.remote;
    write.remote_key = theirs_.counters_key;
    // As many places as work requests can be under way.
    std::byte* const place = totals_->data() + next_total_++ % sends * sizeof operation.total;
    std::memcpy(place, &operation.total, sizeof operation.total);
    from = {address_of(place), bytes, totals_->region()->local_key(0)};
  } else {
    write.to = theirs_.memory + rest.remote;
    write.remote_key = theirs_.memory_key;
    from = {address_of(access_.exposure().memory.data() + rest.local), bytes, access_.memory_key()};
  }
  if (bytes > 0) write.add(from);
  rest.local += bytes;
  rest.remote += bytes;
  rest.bytes -= bytes;
  write.signalled = operation.ends_call && is_last;
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
  if (count == 0) access_.check(target_);  // no completions come from a device that is gone
  if (count > 0 && !waiting_.empty()) pump();
  return done_;
}

void WindowMemory::wait(std::chrono::microseconds longest) {
  std::this_thread::sleep_for(std::min(longest, longest_nap));
}

}  // namespace tutti::transport::verbs
