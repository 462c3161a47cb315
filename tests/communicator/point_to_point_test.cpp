// send, receive and groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/seed.hpp"

namespace tutti::test {
namespace {

class PointToPoint : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, PointToPoint,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 3, 5)),
                         transport_and_ranks);

std::int32_t element(Rank from, Rank to, std::size_t message, std::size_t i) {
  return static_cast<std::int32_t>(
      (static_cast<std::size_t>(from) * 131 + static_cast<std::size_t>(to) * 31 + message * 7 + i * 3) %
      100003);
}

std::vector<std::int32_t> message(Rank from, Rank to, std::size_t number, std::size_t count) {
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = element(from, to, number, i);
  return data;
}

using Data = std::vector<std::int32_t>;

TEST_P(PointToPoint, BlockingMessagesArriveInOrder) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const std::vector<std::size_t> counts{0, 1, 300, 5000, 0, 2, 2'000'000, 17};
        for (std::size_t m = 0; m < counts.size(); ++m) {
          if (comm.rank() == 0)
            for (Rank to = 1; to < comm.size(); ++to)
              comm.send(std::span<const std::int32_t>(message(0, to, m, counts[m])), to);
          else {
            Data got(counts[m]);
            comm.receive(std::span(got), 0);
            EXPECT_EQ(got, message(0, comm.rank(), m, counts[m])) << m;
          }
        }
      },
      over(transport));
}

TEST_P(PointToPoint, ARingInAGroupOfBothDirections) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Rank next = (comm.rank() + 1) % comm.size(),
                   previous = (comm.rank() + comm.size() - 1) % comm.size();
        for (const std::size_t count : {1, 1000, 1'000'001}) {
          const Data up = message(comm.rank(), next, 1, count),
                     down = message(comm.rank(), previous, 2, count);
          Data from_below(count), from_above(count);
          Group group = comm.group();
          group.send(std::span(up), next);
          group.receive(std::span(from_below), previous);
          group.send(std::span(down), previous);
          group.receive(std::span(from_above), next);
          group.run();
          EXPECT_EQ(from_below, message(previous, comm.rank(), 1, count));
          EXPECT_EQ(from_above, message(next, comm.rank(), 2, count));
        }
      },
      over(transport));
}

TEST_P(PointToPoint, ToOneselfInAGroup) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Data out = message(comm.rank(), comm.rank(), 0, 1234),
                   second = message(comm.rank(), comm.rank(), 1, 3);
        Data in(out.size()), also(second.size());
        Group group = comm.group();
        group.receive(std::span(in), comm.rank());
        group.send(std::span(out), comm.rank());
        group.send(std::span(second), comm.rank());
        group.receive(std::span(also), comm.rank());
        group.run();
        EXPECT_EQ(in, out);
        EXPECT_EQ(also, second);

        EXPECT_EQ(thrown_by([&] { comm.send(std::span(out), comm.rank()); }).code,
                  ErrorCode::invalid_argument);
        EXPECT_EQ(thrown_by([&] { comm.async().receive(std::span(in), comm.rank()).wait(); }).code,
                  ErrorCode::invalid_argument);
        Group half = comm.group();
        half.send(std::span(out), comm.rank());
        EXPECT_EQ(thrown_by([&] { half.run(); }).code, ErrorCode::invalid_argument);
        const auto before = comm.stats().operations;
        std::ranges::fill(in, 0);
        Group unequal = comm.group();
        unequal.send(std::span(out), comm.rank());
        unequal.receive(std::span(in), comm.rank());
        unequal.send(std::span(out), comm.rank());
        unequal.receive(std::span(also), comm.rank());
        EXPECT_EQ(thrown_by([&] { unequal.run(); }).code, ErrorCode::invalid_argument);
        EXPECT_EQ(in, Data(in.size())) << "nothing of a group that is refused arrives";
        EXPECT_EQ(comm.stats().operations, before);
        comm.barrier();
      },
      over(transport));
}

// Every pair exchanges several messages of random sizes; every rank lists its calls in an order of its own.
TEST_P(PointToPoint, RandomMixesInAGroupNeverDeadlock) {
  const auto [transport, ranks] = GetParam();
  const unsigned seed = chosen_seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::printf("seed %u\n", seed);
  run_local(
      ranks,
      [&](Communicator& comm) {
        const auto me = comm.rank();
        for (unsigned round = 0; round < 6; ++round) {
          const auto count = [&](Rank from, Rank to, std::size_t m) {
            std::mt19937 random(seed + round * 1000 + static_cast<unsigned>(from * 97 + to * 13) +
                                static_cast<unsigned>(m) * 7);
            return random() % 5 == 0 ? 0 : random() % (random() % 8 == 0 ? 300'000 : 900);
          };
          std::mt19937 random(seed + static_cast<unsigned>(me));
          std::vector<Data> sent, received;
          std::vector<std::pair<Rank, std::size_t>> origin;
          struct Item {
            Rank peer;
            bool sends;
          };
          std::vector<Item> items;
          for (Rank peer = 0; peer < comm.size(); ++peer)
            for (int m = 0; m < 5; ++m) {
              items.push_back({peer, true});
              items.push_back({peer, false});
            }
          std::shuffle(items.begin(), items.end(), random);
          std::vector<std::size_t> next_out(static_cast<std::size_t>(comm.size())), next_in = next_out;
          sent.reserve(items.size());
          received.reserve(items.size());
          Group group = comm.group();
          for (const auto [peer, sends] : items) {
            const auto p = static_cast<std::size_t>(peer);
            if (sends) {
              const std::size_t m = next_out[p]++;
              sent.push_back(message(me, peer, m, count(me, peer, m)));
              group.send(std::span<const std::int32_t>(sent.back()), peer);
            } else {
              const std::size_t m = next_in[p]++;
              received.emplace_back(count(peer, me, m));
              origin.emplace_back(peer, m);
              group.receive(std::span(received.back()), peer);
            }
          }
          group.run();
          for (std::size_t i = 0; i < received.size(); ++i)
            EXPECT_EQ(received[i], message(origin[i].first, me, origin[i].second, received[i].size()));
        }
      },
      over(transport));
}

TEST_P(PointToPoint, CollectivesMixInAGroup) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const Rank next = (comm.rank() + 1) % comm.size(),
                   previous = (comm.rank() + comm.size() - 1) % comm.size();
        const Data out = message(comm.rank(), next, 0, 50'000);
        Data in(out.size());
        const Trial first({.operation = Operation::all_reduce, .count = 30'000}, comm.rank(), comm.size());
        const Trial second({.operation = Operation::all_to_all_v, .count = 400, .seed = 9}, comm.rank(),
                           comm.size());
        const Trial third({.operation = Operation::all_gather, .count = 3, .in_place = true}, comm.rank(),
                          comm.size());
        Group group = comm.group();
        issue(group, first.call());
        group.send(std::span(out), next);
        group.barrier();
        issue(group, second.call());
        group.receive(std::span(in), previous);
        issue(group, third.call());
        group.run();
        for (const auto* trial : {&first, &second, &third}) EXPECT_EQ(trial->wrong(), "");
        EXPECT_EQ(in, message(previous, comm.rank(), 0, in.size()));
      },
      over(transport));
}

TEST(Groups, KeepCopiesOfCountsAndDoNothingUnlessRun) {
  run_local(
      3,
      [](Communicator& comm) {
        {
          Group dropped = comm.group();
          std::int32_t value = 0;
          dropped.all_reduce(std::span(&value, 1));
        }
        Data in(static_cast<std::size_t>(comm.rank()) + 1, comm.rank()), out(6, -1);
        Group group = comm.group();
        for (int i = 0; i < 3; ++i) {
          const std::vector<std::size_t> counts{1, 2, 3};
          group.all_gather_v(std::span<const std::int32_t>(in), std::span(out), counts);
        }
        group.run();
        EXPECT_EQ(out, (Data{0, 1, 1, 2, 2, 2}));
        comm.group().run();  // empty
        comm.barrier();
      },
      over("shm"));
}

// Who sent what matches, to whomever, is not named, though its call may look like the one that does not.
TEST(Sends, ThatDoNotMatchNameWhoSentThem) {
  const Data data(9);
  const auto four = std::span(data).first(4);
  for (const char* transport : {"shm", "tcp"})
    for (const bool backwards : {false, true}) {
      const Rank sender = backwards ? 2 : 1, receiver = backwards ? 1 : 2;
      const auto results = outcomes(3, over(transport, 10s), [&](Communicator& comm) {
        Data out(9);
        if (comm.rank() == 0 && !backwards) comm.send(four, 1);
        if (comm.rank() == 0 && backwards) comm.receive(std::span(out).first(4), 2);
        if (comm.rank() == 1 && !backwards) comm.receive(std::span(out).first(4), 0);
        if (comm.rank() == 2 && backwards) comm.send(four, 0);
        if (comm.rank() == sender) comm.send(four, receiver);
        if (comm.rank() == receiver) comm.receive(std::span(out).first(5), sender);
        comm.barrier();
      });
      const Outcome& found = results[static_cast<std::size_t>(receiver)];
      EXPECT_EQ(found.code, ErrorCode::mismatch) << found.text;
      EXPECT_EQ(found.ranks, (std::vector<Rank>{receiver, sender})) << found.text;
      EXPECT_NE(found.text.find("rank " + std::to_string(sender) + " called send(4 x int32, to rank " +
                                std::to_string(receiver)),
                std::string::npos)
          << found.text;
    }
}

TEST(Sends, ThatDoNotMatchTheReceiveAreMismatches) {
  for (const char* transport : {"shm", "tcp"})
    for (const std::size_t count : {4, 5, 3000}) {
      const auto results = outcomes(2, over(transport, 10s), [&](Communicator& comm) {
        Data data(3000);
        if (comm.rank() == 0)
          comm.send(std::span<const std::int32_t>(data.data(), 4), 1);
        else if (count == 4)
          comm.receive(data.data(), 4, DataType::uint32, 0);
        else
          comm.receive(std::span(data.data(), count), 0);
        comm.barrier();
      });
      EXPECT_EQ(results[1].code, ErrorCode::mismatch) << transport << count;
      EXPECT_NE(results[1].text.find("send(4 x int32"), std::string::npos) << results[1].text;
      EXPECT_NE(results[1].text.find("receive(" + std::to_string(count)), std::string::npos)
          << results[1].text;
      EXPECT_TRUE(results[0].code == ErrorCode::mismatch || results[0].code == ErrorCode::aborted)
          << results[0].text;
    }
}

}  // namespace
}  // namespace tutti::test
