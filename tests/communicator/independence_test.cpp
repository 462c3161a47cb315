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
          for (int call = 0; call < 50; ++call) comm.all_reduce(std::span(sum), ReduceOp::max);
          EXPECT_EQ(sum, std::vector<float>(4096, 1));
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

// Of the calls that share a trial of paths the longest presume another one than the shortest.
TEST(Explaining, OnOneRankChangesNoCall) {
  run_local(
      4,
      [](Communicator& comm) {
        constexpr std::size_t most = 4U << 20U;  // bytes in all
        std::vector<float> in(most / sizeof(float), 1), out(most / sizeof(float));
        const auto count_of = [](std::size_t bytes) { return bytes / sizeof(float) / 4; };
        for (std::size_t bytes = most; comm.rank() == 0 && bytes >= 64 << 10; bytes = bytes * 3 / 4)
          EXPECT_FALSE(comm.explain({.operation = Operation::all_gather,
                                     .type = DataType::float32,
                                     .in = in.data(),
                                     .out = out.data(),
                                     .count = count_of(bytes)})
                           .empty());
        for (std::size_t bytes = 64 << 10; bytes <= most; bytes = bytes * 4 / 3) {
          comm.all_gather(in.data(), out.data(), count_of(bytes), DataType::float32);
          EXPECT_EQ(out[4 * count_of(bytes) - 1], 1);
        }
      },
      over("shm", 5s));
}

// Threads reach each other's memory, but not a copy.
TEST(Explaining, SaysWhichCallsGoByMessagesWhereverTheirBuffersAre) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<float> in(200'000, 1);
        std::vector<float> out(in.size());
        Call call{.operation = Operation::all_reduce,
                  .type = DataType::float32,
                  .in = in.data(),
                  .out = out.data(),
                  .count = in.size()};
        const auto says = [&](const char* part) {
          return comm.explain(call).find(part) != std::string::npos;
        };
        EXPECT_TRUE(says("zero copy: direct, if the buffers")) << comm.explain(call);
        call.in = out.data();
        EXPECT_TRUE(says("zero copy: direct, if the buffers")) << comm.explain(call);
        call.in = in.data();
        call.reduction = scaled_sum(2);
        EXPECT_TRUE(says("zero copy: no: what is reduced is a copy of the input, times its factor"))
            << comm.explain(call);
        EXPECT_FALSE(says("in place")) << comm.explain(call);
        const std::uint64_t before = comm.stats().bytes_direct;
        comm.call(call);
        EXPECT_EQ(out.back(), 4.0F);
        EXPECT_EQ(comm.stats().bytes_direct, before);

        call = {.operation = Operation::all_to_all,
                .type = DataType::float32,
                .in = out.data(),
                .out = out.data(),
                .count = out.size() / 2};
        EXPECT_TRUE(says("zero copy: no: not in place")) << comm.explain(call);
        call.in = in.data();
        EXPECT_TRUE(says("zero copy: direct_pull, if the buffers")) << comm.explain(call);
        EXPECT_TRUE(says("in place")) << comm.explain(call);
        const std::vector<std::size_t> counts(2, out.size() / 2);  // of a call that never is
        call.operation = Operation::all_to_all_v;
        call.count = 0;
        call.in_counts = call.out_counts = counts;
        EXPECT_TRUE(says("zero copy: direct_pull, if the buffers")) << comm.explain(call);
        EXPECT_FALSE(says("in place")) << comm.explain(call);
      },
      over("shm"));
}

void expect_no_zero_copy(int ranks, const Options& options, const char* why, bool use = false) {
  run_local(
      ranks,
      [&](Communicator& comm) {
        const auto memory = comm.allocate<float>(1 << 20);
        if (use)
          comm.use(
              parse_schedule("all_reduce \"ours\" ranks 2 chunks 1\n"
                             "rank 0\nlane 0\nto 1 = in[0]\nout[0] = in[0] + from 1 complete\n"
                             "rank 1\nlane 0\nto 0 = in[0]\nout[0] = from 0 + in[0] complete\n"));
        const std::string text = comm.explain({.operation = Operation::all_reduce,
                                               .type = DataType::float32,
                                               .in = memory.data(),
                                               .out = memory.data(),
                                               .count = memory.size()});
        EXPECT_NE(text.find(std::string("zero copy: no: ") + why), std::string::npos) << text;
        comm.barrier();  // it connects to the other one over TCP, who must still be there
      },
      options);
}

TEST(Explaining, SaysWhyAllocatedMemoryIsNotReached) {
  expect_no_zero_copy(1, over("shm"), "there is no other rank");
  expect_no_zero_copy(2, over("tcp"), "not all ranks share memory");
  expect_no_zero_copy(2, over("shm"), "the given schedule sends messages", true);
  Options forced = over("shm");
  forced.algorithm = "ring";
  expect_no_zero_copy(2, forced, "Options::algorithm forces messages");
}

// In place they take part in trials, too, since other ranks may call elsewhere.
TEST(Explaining, SaysWhatCallsByMessagesDoWhereOthersGoDirectly) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<float> in(10'000, 1);
        std::vector<float> out(in.size());
        Call call{.operation = Operation::all_to_all,
                  .type = DataType::float32,
                  .in = in.data(),
                  .out = out.data(),
                  .count = in.size() / 2};
        EXPECT_NE(comm.explain(call).find("at present: zero copy"), std::string::npos) << comm.explain(call);
        call.in = out.data();
        EXPECT_NE(comm.explain(call).find("at present: through slots of shared memory"), std::string::npos)
            << comm.explain(call);
      },
      over("shm"));
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
