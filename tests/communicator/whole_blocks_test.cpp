// Of an all_to_all_v only two ranks know how long a block is. Those of some lengths are one message each,
// which may stay in its sender's memory until it is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "communicator/ranks.hpp"
#include "communicator/victims.hpp"
#include "execution/lower.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t least = execution::whole_block_over + 4, end = execution::whole_block_end;

/// Bytes that rank `from` sends to rank `to`: shorter, as long as they must be, longer, and none.
std::size_t length(Rank from, Rank to) {
  static const std::vector<std::size_t> lengths{0,   least,     100,     end - 4,     20'000,
                                                end, least - 4, 300'000, end + 4'000, least + 4};
  return lengths[static_cast<std::size_t>(3 * from + 7 * to) % lengths.size()];
}

struct Exchange {
  explicit Exchange(const Communicator& comm) : rank(comm.rank()) {
    for (Rank r = 0; r < comm.size(); ++r) {
      sent.push_back(length(rank, r) / sizeof(std::uint32_t));
      expected.push_back(length(r, rank) / sizeof(std::uint32_t));
    }
    in.resize(std::accumulate(sent.begin(), sent.end(), std::size_t{0}));
    out.resize(std::accumulate(expected.begin(), expected.end(), std::size_t{0}));
  }
  static std::uint32_t value(Rank from, Rank to, std::uint32_t number) {
    return number * 1'000'003U + static_cast<std::uint32_t>(1000 * from + to) * 65'537U;
  }
  /// Block by block, each of another row of numbers.
  void fill(std::uint32_t number) {
    auto at = in.begin();
    for (std::size_t r = 0; r < sent.size(); at += static_cast<std::ptrdiff_t>(sent[r++]))
      std::iota(at, at + static_cast<std::ptrdiff_t>(sent[r]), value(rank, static_cast<Rank>(r), number));
  }
  [[nodiscard]] bool has_come(std::uint32_t number) const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < expected.size(); ++r)
      for (std::size_t i = 0; i < expected[r]; ++i)
        if (out[at++] != value(static_cast<Rank>(r), rank, number) + i) return false;
    return true;
  }
  void run(Communicator& comm) {
    comm.all_to_all_v(std::span<const std::uint32_t>(in), sent, {}, std::span(out), expected, {});
  }
  Rank rank;
  std::vector<std::size_t> sent, expected;
  std::vector<std::uint32_t> in, out;
};

void exchange_often(Communicator& comm, std::uint32_t calls) {
  Exchange exchange(comm);
  for (std::uint32_t number = 0; number < calls; ++number) {
    exchange.fill(number);
    exchange.run(comm);
    std::fill(exchange.in.begin(), exchange.in.end(), 0U);
    ASSERT_TRUE(exchange.has_come(number)) << "call " << number;
  }
}

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

// The sender writes its buffer anew as soon as it has it back. Through the trials of short and of long
// blocks.
TEST(WholeBlocks, ArriveAsTheyWereWhenTheyWereSent) {
  for (const int ranks : {3, 5})
    run_processes(ranks, over("shm"), [](Communicator& comm) {
      exchange_often(comm, 70);
      const bool attaches = kernel_permits_attach();
      EXPECT_EQ(comm.stats().bytes_direct > 0, attaches) << "attach was not tried";
      const Exchange exchange(comm);
      Call call{.operation = Operation::all_to_all_v, .type = DataType::uint32};
      call.in_counts = exchange.sent, call.out_counts = exchange.expected;
      EXPECT_EQ(comm.explain(call).find("their sender may leave them in its memory") != std::string::npos,
                attaches)
          << comm.explain(call);
    });
}

// Rank 1 has plain memory: blocks of the others are copied from where they lie all the same.
TEST(WholeBlocks, OfRegisteredMemoryAreReadThere) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    constexpr std::size_t block = 100'000;
    const auto a = comm.allocate<float>(3 * block), b = comm.allocate<float>(3 * block);
    std::vector<float> plain_in(3 * block), plain_out(3 * block);
    const bool plain = comm.rank() == 1;
    const std::span<float> in = plain ? std::span(plain_in) : a.span();
    const std::span<float> out = plain ? std::span(plain_out) : b.span();
    const std::vector<std::size_t> counts(3, block);
    const auto call = [&](float value) {
      std::fill(in.begin(), in.end(), value + static_cast<float>(comm.rank()));
      comm.all_to_all_v(std::span<const float>(in), counts, {}, out, counts, {});
      for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t i = r * block; i < (r + 1) * block; ++i)
          ASSERT_EQ(out[i], value + static_cast<float>(r)) << i;
    };
    const auto before = comm.stats().bytes_direct;
    call(1);
    EXPECT_EQ(comm.stats().bytes_direct - before, (plain ? 2 : 1) * block * sizeof(float));
    call(2);
  });
}

// Several calls are under way; then something else is, which does not move them.
TEST(WholeBlocks, OfSeveralCallsAtOnce) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    std::vector<Exchange> exchanges(4, Exchange(comm));
    for (std::uint32_t round = 0; round < 12; ++round) {
      std::vector<Work> under_way;
      for (std::uint32_t k = 0; k < exchanges.size(); ++k) {
        Exchange& e = exchanges[k];
        e.fill(4 * round + k);
        under_way.push_back(comm.async().all_to_all_v(std::span<const std::uint32_t>(e.in), e.sent, {},
                                                      std::span(e.out), e.expected, {}));
        for (Rank to = 0; to < comm.size(); ++to) {
          if (to == comm.rank()) continue;
          under_way.push_back(comm.async().send(std::span<const std::uint32_t>(e.in).first(40'000), to));
        }
      }
      std::vector<std::uint32_t> received(40'000);
      for (std::uint32_t k = 0; k < exchanges.size(); ++k)
        for (Rank from = 0; from < comm.size(); ++from)
          if (from != comm.rank()) comm.receive(std::span(received), from);
      for (Work& work : under_way) work.wait();
      for (std::uint32_t k = 0; k < exchanges.size(); ++k)
        ASSERT_TRUE(exchanges[k].has_come(4 * round + k)) << round << ", " << k;
    }
  });
}

// Where one end takes a block for one message, the other one may take it for several.
TEST(WholeBlocks, OfAnotherLengthThanExpectedAreNamed) {
  for (const auto& [sends, expects] : {std::pair{least, least - 4},
                                       {least - 4, least},
                                       {std::size_t{0}, end - 4},
                                       {end - 4, std::size_t{0}},
                                       {end, end - 4},
                                       {end - 4, end},
                                       {least, least + 4}})
    for (const int right : {0, 3}) {
      SCOPED_TRACE(std::to_string(sends) + " bytes where " + std::to_string(expects) + " are expected");
      const auto results =
          outcomes(3, over("shm", 10s), [&, sends = sends, expects = expects](Communicator& comm) {
            std::vector<std::size_t> to(3, expects / 4), from(3, expects / 4);
            const std::vector<std::uint32_t> in(3 * end / 4);
            std::vector<std::uint32_t> out(3 * end / 4);
            const auto call = [&] { comm.all_to_all_v(std::span(in), to, {}, std::span(out), from, {}); };
            for (int number = 0; number < right; ++number) call();
            if (comm.rank() == 2) to[0] = sends / 4;
            call();
            comm.barrier();
          });
      EXPECT_EQ(results[0].code, ErrorCode::mismatch) << results[0].text;
      EXPECT_EQ(results[0].ranks, (std::vector<Rank>{0, 2})) << results[0].text;
      for (const auto& result : results)
        EXPECT_NE(result.text.find("which sends this one " + std::to_string(sends / 4) +
                                   " elements; it expects " + std::to_string(expects / 4)),
                  std::string::npos)
            << result.text;
    }
}

// While others are at work on its blocks, or it on theirs.
TEST(WholeBlocks, OfARankThatEndsInTheMiddle) {
  for (const Rank victim : {0, 1, 2})
    end_one(
        "shm", victim,
        [](Communicator& comm, std::uint32_t) {
          const std::vector<std::size_t> counts(3, 200'000);
          const std::vector<float> in(600'000, 1.0F);
          std::vector<float> out(600'000);
          comm.all_to_all_v(std::span(in), counts, {}, std::span(out), counts, {});
        },
        killed);
}

#endif  // __SANITIZE_THREAD__

// Buffers of threads are mapped by all.
TEST(WholeBlocks, BetweenThreads) {
  run_local(4, [](Communicator& comm) { exchange_often(comm, 12); });
}

}  // namespace
}  // namespace tutti::test
