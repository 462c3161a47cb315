/// \file
/// Lowered programs of all ranks, run by the CPU executor in one thread over FIFOs that are queues: what the
/// device executor is compared with.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "execution/executor.hpp"
#include "execution/lower.hpp"

namespace tutti::test {

class Queue final : public transport::Sender, public transport::Receiver {
 public:
  std::byte* try_reserve(std::size_t bytes) override {
    if (messages_.size() >= transport::channel_credits) return nullptr;
    room_.resize(std::max<std::size_t>(bytes, 1));
    return room_.data();
  }
  void publish(std::size_t, transport::Tag) override { messages_.push_back(std::move(room_)); }
  bool try_send(const std::byte* data, std::size_t bytes, transport::Tag tag, bool) override {
    std::byte* room = try_reserve(bytes);
    if (room == nullptr) return false;
    if (bytes != 0) std::memcpy(room, data, bytes);
    publish(bytes, tag);
    return true;
  }
  bool flushed() override { return true; }
  const std::byte* try_acquire(std::size_t, transport::Tag) override {
    return messages_.empty() ? nullptr : messages_.front().data();
  }
  void release() override { messages_.pop_front(); }
  bool try_receive(std::byte* into, std::size_t bytes, transport::Tag tag) override {
    const std::byte* view = try_acquire(bytes, tag);
    if (view == nullptr) return false;
    if (bytes != 0) std::memcpy(into, view, bytes);
    release();
    return true;
  }

 private:
  std::deque<std::vector<std::byte>> messages_;
  std::vector<std::byte> room_;
};

/// From, to, channel.
using Queues = std::map<std::tuple<Rank, Rank, int>, Queue>;

class QueueChannels final : public execution::Channels {
 public:
  QueueChannels(Queues& queues, Rank me) : queues_(queues), me_(me) {}
  transport::Sender& sender(Rank peer, int channel) override { return queues_[{me_, peer, channel}]; }
  transport::Receiver& receiver(Rank peer, int channel) override { return queues_[{peer, me_, channel}]; }

 private:
  Queues& queues_;
  Rank me_;
};

/// The buffers of one rank.
struct RankBuffers {
  std::vector<std::byte> input, output;
};

class AllMemory final : public execution::PeerMemory {
 public:
  explicit AllMemory(std::vector<RankBuffers>& all) : all_(all) {}
  std::byte* at(Rank peer, execution::Base base, std::uint64_t offset) override {
    auto& buffers = all_[static_cast<std::size_t>(peer)];
    return (base == execution::Base::peer_input ? buffers.input : buffers.output).data() + offset;
  }
  void read(Rank, execution::Base, std::uint64_t, std::byte*, std::size_t) override {}
  void write(Rank, execution::Base, std::uint64_t, const std::byte*, std::size_t) override {}

 private:
  std::vector<RankBuffers>& all_;
};

/// Runs `programs` (by rank) until all are done, each on its buffers and scratch memory of its own.
inline void run_in_turn(const std::vector<execution::Program>& programs,
                        std::vector<execution::Buffers> all) {
  std::vector<execution::Execution> executions(programs.size());
  std::vector<std::vector<std::byte>> scratch(programs.size());
  for (std::size_t r = 0; r < programs.size(); ++r) {
    scratch[r].resize(programs[r].scratch_bytes);
    all[r].scratch = scratch[r].data();
    executions[r].begin(programs[r], all[r], 7);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& execution : executions) moved = execution.advance() || moved;
  }
}
inline void run_in_turn(const std::vector<execution::Program>& programs, std::vector<RankBuffers>& all) {
  AllMemory peers(all);
  std::vector<execution::Buffers> buffers;
  buffers.reserve(all.size());
  for (RankBuffers& mine : all) buffers.push_back({mine.input.data(), mine.output.data(), nullptr, &peers});
  run_in_turn(programs, std::move(buffers));
}

}  // namespace tutti::test
