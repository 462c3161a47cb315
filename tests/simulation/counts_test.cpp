// What the simulator counts is what a communicator counts: messages, bytes, copies and memory, of every
// operation by every algorithm that sends messages.
#include <functional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tutti/tutti.hpp>

#include "collectives/algorithms.hpp"
#include "sanitized.hpp"
#include "simulation/cast.hpp"
#include "simulation/host_network.hpp"
#include "simulation/simulate.hpp"
#include "simulation/uniform.hpp"
#include "transport/shm/layout.hpp"
#include "transport/tcp/frame.hpp"
#include "tuning/pieces.hpp"
#include "tuning/tuning.hpp"

namespace tutti {

void PrintTo(const Algorithm& algorithm, std::ostream* stream);  // quotient_test.cpp

namespace simulation {
namespace {

using transport::shm::Layout;

constexpr int node_size = 2;

struct Case {
  const Algorithm* algorithm;
  int ranks;
  std::size_t count;  ///< elements of the exercised call
  bool shared;
};

Workload workload(const Case& c) {
  const Collective collective = c.algorithm->collective;
  const bool blocks = collective != Collective::all_reduce && collective != Collective::reduce &&
                      collective != Collective::broadcast;
  const std::size_t bytes = c.count * sizeof(float) * static_cast<std::size_t>(blocks ? c.ranks : 1);
  return {.collective = collective,
          .bytes = bytes,
          .piece = tuning::piece(collective, bytes, c.ranks, c.shared ? "shm" : "tcp"),
          .max_message = c.shared ? Layout(c.ranks).max_message() : transport::tcp::max_message};
}

Network network_for(const Case& c) {
  Network network = host_network(c.ranks, {});
  network.processor.multicasts = c.shared;
  return network;
}

// FIFOs that a rank sends on: those that shared memory has from the start, for the usual schedules, those of
// the communicator's own first calls, and the call's.
std::size_t memory_held(const Case& c, Rank rank) {
  const Network network = network_for(c);
  Quotient all = everybody(network);
  const auto add = [&](const Algorithm& algorithm, const Workload& what) {
    cast(algorithm.make(c.ranks, 0, node_size), network, what, all, false);
  };
  add(*find_algorithm(Collective::barrier, "dissemination"), {.collective = Collective::barrier});
  // What is forced for the call is also what the first all_reduce takes, if it has one of that name.
  const Algorithm* first = find_algorithm(Collective::all_reduce, c.algorithm->name);
  if (first == nullptr)
    first = tuning::Tuning::defaults()
                ->choices({.transport = "shm", .ranks = c.ranks})
                ->of(Collective::all_reduce, sizeof(float));
  add(*first, {.bytes = sizeof(float)});
  add(*c.algorithm, workload(c));
  std::set<std::pair<Rank, int>> fifos;  // a multicast is one
  for (Rank peer = 0; peer < c.ranks; ++peer) {
    if (peer != rank) fifos.insert({peer, transport::stream_channel});
    for (const int channel : {0, 1}) {
      if (peer == rank && c.ranks > 2) fifos.insert({rank, max_channels + channel});
      if (peer != rank && (c.ranks == 2 || channel == 0)) fifos.insert({peer, channel});
    }
  }
  if (rank == 0 && c.ranks > 2) fifos.insert({rank, max_channels + transport::lone_channel});
  for (const FifoKind& fifo : all.fifos)
    if (fifo.from == rank) fifos.insert({fifo.channel >= max_channels ? rank : fifo.to, fifo.channel});
  const Layout layout(c.ranks);
  std::size_t held = Layout::control_bytes;
  for (const auto& [peer, channel] : fifos)
    held += layout.used_bytes(rank, peer, peer == rank ? channel - max_channels : channel);
  return held;
}

void call(Communicator& comm, Collective collective, std::size_t count) {
  const std::size_t all = count * static_cast<std::size_t>(comm.size());
  std::vector<float> in(all), out(all);
  const std::span<const float> block(in.data(), count), blocks(in);
  const std::span<float> to_block(out.data(), count), to_blocks(out);
  switch (collective) {
    case Collective::all_reduce:
      return comm.all_reduce(block, to_block);
    case Collective::reduce:
      return comm.reduce(block, to_block, 0);
    case Collective::reduce_scatter:
      return comm.reduce_scatter(blocks, to_block);
    case Collective::all_gather:
      return comm.all_gather(block, to_blocks);
    case Collective::broadcast:
      return comm.broadcast(block, to_block, 0);
    case Collective::gather:
      return comm.gather(block, to_blocks, 0);
    case Collective::scatter:
      return comm.scatter(blocks, to_block, 0);
    case Collective::all_to_all:
      return comm.all_to_all(blocks, to_blocks);
    case Collective::barrier:
      return comm.barrier();
  }
}

// Makes the call on real ranks, and hands each one's statistics before and after to `check`.
void counted(const Case& c, const std::function<void(Rank, const Stats& before, const Stats& after)>& check) {
  Options options;
  options.transport = c.shared ? "shm" : "tcp";
  options.algorithm = c.algorithm->name;
  options.node_size = node_size;
  run_local(
      c.ranks,
      [&](Communicator& comm) {
        const Stats before = comm.stats();
        call(comm, c.algorithm->collective, c.count);
        check(comm.rank(), before, comm.stats());
      },
      options);
}

void expect_counts(const Case& c) {
  const Result predicted = simulate(c.algorithm->make(c.ranks, 0, node_size), network_for(c), workload(c));
  counted(c, [&](Rank me, const Stats& before, const Stats& after) {
    const RankCounts& rank = predicted.ranks[static_cast<std::size_t>(me)];
    EXPECT_EQ(after.messages_sent - before.messages_sent, rank.messages_sent);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, rank.bytes_sent);
    EXPECT_EQ(after.messages_received - before.messages_received, rank.messages_received);
    EXPECT_EQ(after.bytes_received - before.bytes_received, rank.bytes_received);
    if (!c.shared) return;
    EXPECT_EQ(after.bytes_copied - before.bytes_copied, rank.bytes_copied);
    EXPECT_EQ(after.memory_held, memory_held(c, me));
  });
}

// What crosses each rank's links: by the simulator on a network of a link out of and into every rank, and by
// TCP, whose messages are one FIFO each.
void expect_link_bytes(const Case& c) {
  const Result predicted =
      simulate(c.algorithm->make(c.ranks, 0, node_size), uniform(c.ranks, 1e-6, 1e-9), workload(c));
  std::vector<double> bytes(2 * static_cast<std::size_t>(c.ranks));
  for (const LinkCounts& link : predicted.links) bytes[static_cast<std::size_t>(link.link)] = link.bytes;
  counted(c, [&](Rank me, const Stats& before, const Stats& after) {
    const auto rank = static_cast<std::size_t>(me);
    EXPECT_EQ(static_cast<double>(after.bytes_sent - before.bytes_sent), bytes[2 * rank]);
    EXPECT_EQ(static_cast<double>(after.bytes_received - before.bytes_received), bytes[2 * rank + 1]);
  });
}

class Counts : public testing::TestWithParam<Algorithm> {};

std::vector<Algorithm> by_messages() {
  std::vector<Algorithm> some;
  for (const Algorithm& algorithm : algorithms())
    if (!algorithm.one_sided) some.push_back(algorithm);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Collectives, Counts, testing::ValuesIn(by_messages()), [](const auto& test) {
  return std::string(name(test.param.collective)) + "_" + std::string(test.param.name);
});

TEST_P(Counts, AreThoseOfRealCalls) {
  for (int ranks = 2; ranks <= (sanitized ? 3 : 8); ++ranks)
    for (const std::size_t count : {1000, 70'001}) {
      if (count > 1000 && ranks > 3 && ranks < 8) continue;
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements");
      expect_counts({&GetParam(), ranks, count, true});
    }
  expect_counts({&GetParam(), 4, 70'001, false});
}

TEST_P(Counts, OfBytesOnLinksAreThoseOfRealCalls) {
  for (const int ranks : {2, 5}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    expect_link_bytes({&GetParam(), ranks, 30'001, false});
  }
}

}  // namespace
}  // namespace simulation
}  // namespace tutti
