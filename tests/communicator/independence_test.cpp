// Calls that are independent of each other do not take each other's messages, and asking changes nothing.
#include <gtest/gtest.h>

#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Independence : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Independence, testing::Values("shm", "tcp"), transport_name);

// Eight bytes, as long as what ranks tell each other first while they make a communicator.
TEST_P(Independence, AReceiveUnderWayDoesNotTakeWhatSplitExchanges) {
  run_local(
      2,
      [](Communicator& comm) {
        std::uint64_t number = 0;
        if (comm.rank() == 0) {
          Work work = comm.async().receive(std::span(&number, 1), 1);
          Communicator child = comm.split(0, 0).value();
          work.wait();
          EXPECT_EQ(number, 77U);
          child.barrier();
        } else {
          Communicator child = comm.split(0, 0).value();
          number = 77;
          comm.send(std::span<const std::uint64_t>(&number, 1), 0);
          child.barrier();
        }
      },
      over(GetParam()));
}

// Its trees use every channel that schedules have.
TEST_P(Independence, AReceiveUnderWayDoesNotTakeWhatAScheduleSends) {
  Options options = over(GetParam());
  options.algorithm = "hierarchical_tree";
  options.node_size = 2;
  run_local(
      4,
      [](Communicator& comm) {
        for (Rank other = 0; other < comm.size(); ++other) {
          std::vector<float> sum(4096, 1), message(256, static_cast<float>(comm.rank()));
          Work work;
          if (comm.rank() != other) work = comm.async().receive(std::span(message), other);
          comm.all_reduce(std::span(sum));
          EXPECT_EQ(sum, std::vector<float>(4096, 4));
          if (comm.rank() == other)
            for (Rank to = 0; to < comm.size(); ++to)
              if (to != other) comm.send(std::span<const float>(message), to);
          work.wait();
          EXPECT_EQ(message, std::vector<float>(256, static_cast<float>(other)));
          comm.barrier();
        }
      },
      options);
}

// Of calls that share a trial of paths one of the larger kind presumes another path.
TEST(Explaining, OnOneRankChangesNoCall) {
  run_local(4, [](Communicator& comm) {
    std::vector<float> in(1 << 20, 1), out(4U << 20U);
    const auto call_of = [&](std::size_t bytes_in_all) {
      return Call{.operation = Operation::all_gather,
                  .type = DataType::float32,
                  .in = in.data(),
                  .out = out.data(),
                  .count = bytes_in_all / sizeof(float) / 4};
    };
    for (std::size_t bytes = 64 << 10; bytes <= 4U << 20U; bytes *= 2) {
      for (const std::size_t other : {bytes * 3 / 2, bytes * 7 / 4, bytes * 3})
        if (comm.rank() == 0) {
          EXPECT_FALSE(comm.explain(call_of(other)).empty());
        }
      for (int call = 0; call < 2; ++call) {
        const std::size_t count = bytes / sizeof(float) / 4;
        comm.all_gather(in.data(), out.data(), count, DataType::float32);
        EXPECT_EQ(out[4 * count - 1], 1);
      }
    }
  });
}

TEST(OptionsOfRanks, MustAgreeOnWhereResultsGoPastTheCaches) {
  const auto id = UniqueId::create();
  bootstrap::test::on_threads(2, [&](Rank rank) {
    Options options = over("", 5s);
    if (rank == 1) options.stream_from = 4096;
    const auto thrown = thrown_by([&] { Communicator(id, rank, 2, options); });
    EXPECT_EQ(thrown.code, ErrorCode::mismatch) << thrown.text;
    EXPECT_NE(thrown.text.find("stream_from"), std::string::npos) << thrown.text;
  });
}

}  // namespace
}  // namespace tutti::test
