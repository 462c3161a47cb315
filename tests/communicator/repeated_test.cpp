// Calls like the ones before, whose checks and plans hold: what else is done in between must not show.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "collectives/algorithms.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Repeated : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Repeated,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 4)),
                         transport_and_ranks);

float value_of(int round, Rank rank) { return static_cast<float>(round * 100 + rank); }

float sum_over(int ranks, int round) {
  float sum = 0;
  for (Rank r = 0; r < ranks; ++r) sum += value_of(round, r);
  return sum;
}

// The same buffers in every round, other values.
struct Buffers {
  Buffers(const Communicator& comm, std::size_t elements)
      : rank(comm.rank()),
        ranks(comm.size()),
        in(elements),
        out(elements),
        gathered(elements * static_cast<std::size_t>(ranks)) {}
  void fill(int the_round) {
    round = the_round;
    std::fill(in.begin(), in.end(), value_of(round, rank));
    std::fill(out.begin(), out.end(), -1.0F);
    std::fill(gathered.begin(), gathered.end(), -1.0F);
  }
  void expect_sum() const { expect_all(out, sum_over(ranks, round)); }
  void expect_gathered() const {
    for (Rank from = 0; from < ranks; ++from)
      expect_all(std::span(gathered).subspan(static_cast<std::size_t>(from) * in.size(), in.size()),
                 value_of(round, from));
  }
  // The first is `value`, and each is as the one before: at once, since sanitizers look at every access.
  void expect_all(std::span<const float> values, float value) const {
    ASSERT_EQ(values.front(), value) << "round " << round;
    ASSERT_EQ(std::memcmp(values.data(), values.data() + 1, values.size_bytes() - sizeof(float)), 0)
        << "round " << round;
  }
  Rank rank;
  int ranks;
  int round = 0;
  std::vector<float> in, out, gathered;
};

/// On the ring of ranks: the one before, the one after.
std::pair<Rank, Rank> neighbours(const Communicator& comm) {
  return {(comm.rank() + comm.size() - 1) % comm.size(), (comm.rank() + 1) % comm.size()};
}

TEST_P(Repeated, CallsReadWhatTheBuffersHoldNow) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (const std::size_t elements : {1, 14, 15, 900, 70'000}) {
          Buffers a(comm, elements);
          Buffers b(comm, elements);
          const std::span<const float> in = a.in;
          auto async = comm.async();
          for (int round = 0; round < 60; ++round) {
            a.fill(round);
            comm.all_reduce(in, std::span(a.out));
            a.expect_sum();
            if (round % 3 == 1) {
              comm.all_gather(in, std::span(a.gathered));
              a.expect_gathered();
            }
            if (round % 5 == 2) {
              b.fill(round);
              async.all_reduce(std::span<const float>(b.in), std::span(b.out)).wait();
              b.expect_sum();
            }
            if (round % 7 == 3) comm.barrier();
          }
        }
      },
      over(transport));
}

std::uint64_t messages_of_a_call(Communicator& comm, const Buffers& buffers, std::span<float> out) {
  const auto before = comm.stats().messages_sent;
  comm.all_reduce(std::span<const float>(buffers.in), out);
  return comm.stats().messages_sent - before;
}

TEST_P(Repeated, CallsTakeAScheduleGivenInBetween) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Buffers buffers(comm, 2);
        const auto ring = find_algorithm(Collective::all_reduce, "ring")->make(comm.size(), 0);
        std::vector<std::uint64_t> usual;
        for (int round = 0; round < 9; ++round) {
          if (round == 3) comm.use(ring);
          if (round == 6) comm.use_default(Collective::all_reduce);
          buffers.fill(round);
          comm.all_gather(std::span<const float>(buffers.in), std::span(buffers.gathered));
          usual.push_back(messages_of_a_call(comm, buffers, buffers.out));
          buffers.expect_sum();
        }
        const auto steps = static_cast<std::uint64_t>(2 * (comm.size() - 1));  // of a ring, each a message
        EXPECT_EQ(usual, (std::vector{usual[0], usual[0], usual[0], steps, steps, steps, usual[0], usual[0],
                                      usual[0]}));
        EXPECT_NE(usual[0], steps);
      },
      over(transport));
}

// More calls in turn than a communicator remembers, and few.
TEST_P(Repeated, CallsInTurn) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (const std::size_t calls : {2, 7, 600}) {
          std::vector<Buffers> buffers(calls, Buffers(comm, 3));
          for (int round = 0; round < 4; ++round)
            for (std::size_t i = 0; i < calls; ++i) {
              buffers[i].fill(round * 1000 + static_cast<int>(i));
              comm.all_reduce(std::span<const float>(buffers[i].in), std::span(buffers[i].out));
              comm.all_gather(std::span<const float>(buffers[i].in), std::span(buffers[i].gathered));
              buffers[i].expect_sum();
              buffers[i].expect_gathered();
            }
        }
      },
      over(transport));
}

TEST_P(Repeated, CallsThatLackTheirCountsAreRefused) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const auto n = static_cast<std::size_t>(comm.size());
        const std::vector<std::size_t> counts(n, 1);
        const float in = value_of(0, comm.rank());
        std::vector<float> out(n);
        Call call{.operation = Operation::all_gather_v,
                  .type = DataType::float32,
                  .in = &in,
                  .out = out.data(),
                  .out_counts = counts};
        for (int round = 0; round < 2; ++round) {
          comm.call(call);
          Call lacking = call;
          lacking.out_counts = {};
          EXPECT_EQ(thrown_by([&] { comm.call(lacking); }).code, ErrorCode::invalid_argument);
        }
        EXPECT_EQ(out.back(), value_of(0, comm.size() - 1));
      },
      over(transport));
}

/// Of this process, in bytes.
std::size_t resident_memory() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// A call with a factor copies its input.
TEST(Repeats, ShortCallsDoNotKeepTheMemoryOfLongOnes) {
  run_local(2, [](Communicator& comm) {
    constexpr std::size_t rounds = 100, apart = 16;
    std::vector<float> large(std::size_t{1} << 18, 1), small(rounds * apart, 1);
    std::size_t early = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      comm.all_reduce(std::span(large), Reduction(ReduceOp::sum, 0.5));
      comm.all_reduce(std::span(small).subspan(round * apart, 1));
      if (round == 10) early = resident_memory();
    }
    EXPECT_LT(resident_memory(), early + (std::size_t{32} << 20U));
    EXPECT_EQ(large[0], 1.0F);
  });
}

// The same buffers with other counts, and with the same ones in other places.
TEST_P(Repeated, CallsWithCounts) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const auto n = static_cast<std::size_t>(comm.size());
        const auto me = static_cast<std::size_t>(comm.rank());
        std::vector<float> in(8), out(8 * n);
        std::vector<std::size_t> kept(n);
        for (int round = 0; round < 60; ++round) {
          std::vector<std::size_t> moved(n);
          auto& counts = round % 4 == 3 ? moved : kept;
          const std::size_t longest = round / 5 % 3 + 1;
          for (std::size_t r = 0; r < n; ++r) counts[r] = (r + longest) % 4;
          std::fill(in.begin(), in.end(), value_of(round, comm.rank()));
          std::fill(out.begin(), out.end(), -1.0F);
          comm.all_gather_v(std::span<const float>(in).first(counts[me]), std::span(out), counts);
          std::size_t at = 0;
          for (std::size_t r = 0; r < n; ++r)
            for (std::size_t i = 0; i < counts[r]; ++i)
              ASSERT_EQ(out[at++], value_of(round, static_cast<Rank>(r))) << "round " << round;
          ASSERT_EQ(out[at], -1.0F) << "round " << round;

          // To rank r go as many as to all others.
          const std::vector<std::size_t> taken(n, counts[me]);
          std::fill(out.begin(), out.end(), -1.0F);
          comm.all_to_all_v(std::span<const float>(in), counts, std::vector<std::size_t>(n), std::span(out),
                            taken, {});
          for (std::size_t i = 0; i < n * counts[me]; ++i)
            ASSERT_EQ(out[i], value_of(round, static_cast<Rank>(i / counts[me]))) << "round " << round;
          ASSERT_EQ(out[n * counts[me]], -1.0F) << "round " << round;
        }
      },
      over(transport));
}

TEST_P(Repeated, SendsAndReceives) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const auto [previous, next] = neighbours(comm);
        for (const std::size_t elements : {1, 15, 3000}) {
          Buffers buffers(comm, elements);
          const std::span<const float> in = buffers.in;
          for (int round = 0; round < 40; ++round) {
            buffers.fill(round);
            // Both ways round, by calls of their own and in a group.
            const bool back = round % 4 == 3;
            const Rank to = back ? previous : next;
            const Rank from = back ? next : previous;
            if (round % 3 == 0) {
              auto group = comm.group();
              group.send(in, to);
              group.receive(std::span(buffers.out), from);
              if (round % 2 == 0) group.all_gather(in, std::span(buffers.gathered));
              group.run();
              if (round % 2 == 0) buffers.expect_gathered();
            } else if (comm.rank() % 2 == 0) {
              comm.send(in, to);
              comm.receive(std::span(buffers.out), from);
            } else {
              comm.receive(std::span(buffers.out), from);
              comm.send(in, to);
            }
            for (const float x : buffers.out) ASSERT_EQ(x, value_of(round, from));
          }
        }
      },
      over(transport));
}

// Groups like the last one, and with another order, another buffer, fewer calls, one to oneself in between.
TEST_P(Repeated, Groups) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        const auto [previous, next] = neighbours(comm);
        Buffers near(comm, 15);
        Buffers far(comm, 15);
        float own = 0;
        for (int round = 0; round < 64; ++round) {
          near.fill(round);
          far.fill(round + 1000);
          const int form = round / 3 % 6;
          const Buffers& sent = form == 2 ? far : near;
          auto group = comm.group();
          if (form == 1) group.receive(std::span(near.out), previous);
          group.send(std::span<const float>(sent.in), next);
          if (form != 1) group.receive(std::span(near.out), previous);
          if (form == 3 || form == 5) {
            group.send(std::span<const float>(far.in), previous);
            group.receive(std::span(far.out), next);
          }
          if (form == 4 || form == 5) {
            const float mine = value_of(round, 77);
            group.send(std::span(&mine, 1), comm.rank());
            group.receive(std::span(&own, 1), comm.rank());
            group.run();
            ASSERT_EQ(own, mine) << "round " << round;
          } else {
            group.run();
          }
          for (const float x : near.out) ASSERT_EQ(x, value_of(sent.round, previous)) << "round " << round;
          if (form != 3 && form != 5) continue;
          for (const float x : far.out) ASSERT_EQ(x, value_of(far.round, next)) << "round " << round;
        }
      },
      over(transport));
}

// Of a factor the library keeps a copy of the input, which is another one each time.
TEST_P(Repeated, CallsWithAFactor) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Buffers buffers(comm, 500);
        for (int round = 0; round < 5; ++round) {
          buffers.fill(round);
          comm.all_reduce(std::span<const float>(buffers.in), std::span(buffers.out), scaled_sum(0.5));
          for (const float x : buffers.out) ASSERT_EQ(x, sum_over(comm.size(), round) / 2);
        }
      },
      over(transport));
}

// Long ones, for which ranks tell each other where their buffers are.
TEST_P(Repeated, OnSomeRanksOnly) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        Buffers same(comm, 600'000);
        Buffers other(comm, 600'000);
        for (int round = 0; round < 8; ++round) {
          Buffers& mine = comm.rank() == 0 || round % 2 == 0 ? same : other;
          mine.fill(round);
          comm.all_reduce(std::span<const float>(mine.in), std::span(mine.out));
          mine.expect_sum();
        }
      },
      over(transport, 5s));
}

}  // namespace
}  // namespace tutti::test
