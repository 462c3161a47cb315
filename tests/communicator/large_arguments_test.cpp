// Calls with counts of more than 2^31 elements: refused, planned, or told from others by their counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <string>
#include <vector>

#include "communicator/exercise.hpp"
#include "communicator/large_counts.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class LargeArguments : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, LargeArguments, testing::Values("shm", "tcp"), transport_name);

// Modulo 2^64 these are 0, 4, 2^63 and 2^64 - 4 bytes, and twice that of two ranks.
TEST_P(LargeArguments, WhoseBytesOverflowAreRefusedBeforeAnythingIsSent) {
  run_local(
      2,
      [](Communicator& comm) {
        for (const std::size_t count :
             {std::size_t{1} << 62U, (std::size_t{1} << 62U) + 1, std::size_t{1} << 61U, ~std::size_t{0}})
          for (int code = 0; code < operation_count; ++code) {
            const auto operation = static_cast<Operation>(code);
            if (operation == Operation::barrier) continue;
            Call call{.operation = operation,
                      .type = DataType::float32,
                      .root = operation >= Operation::send ? 1 - comm.rank() : comm.rank(),
                      .in = large_in,
                      .out = large_out,
                      .count = count};
            const std::array<std::size_t, 2> counts{1, count}, none{0, 0}, apart{0, count}, ones{1, 1};
            const auto refused = [&] {
              for (const bool asynchronous : {false, true}) {
                const Stats before = comm.stats();
                const auto thrown = thrown_by([&] {
                  if (asynchronous)
                    comm.async().call(call).wait();
                  else
                    comm.call(call);
                });
                EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << describe(call) << thrown.text;
                EXPECT_THAT(thrown.text,
                            testing::HasSubstr(describe(call) + ": the size in bytes overflows"));
                EXPECT_EQ(comm.stats().messages_sent, before.messages_sent);
              }
            };
            if (operation == Operation::all_gather_v) call.out_counts = counts;
            if (operation == Operation::reduce_scatter_v) call.in_counts = counts;
            if (operation == Operation::all_to_all_v) call.in_counts = counts, call.out_counts = none;
            refused();
            if (operation == Operation::all_gather_v)
              call.out_counts = ones, call.out_displacements = apart;
            else if (operation == Operation::reduce_scatter_v)
              call.in_counts = ones, call.in_displacements = apart;
            else if (operation == Operation::all_to_all_v)
              call.in_counts = none, call.out_counts = ones, call.out_displacements = apart;
            else
              continue;
            refused();
          }
        expect_right(comm, {.count = 100});
      },
      over(GetParam()));
}

TEST_P(LargeArguments, OfWhichOnlyAllRanksTogetherOverflowAreRefused) {
  run_local(
      2,
      [](Communicator& comm) {
        const std::vector<std::size_t> each(2, std::size_t{1} << 60U);
        for (const Operation operation : {Operation::reduce_scatter, Operation::all_gather, Operation::gather,
                                          Operation::scatter, Operation::all_to_all, Operation::all_gather_v,
                                          Operation::reduce_scatter_v, Operation::all_to_all_v}) {
          Call call{.operation = operation,
                    .type = DataType::float32,
                    .root = comm.rank(),
                    .in = large_in,
                    .out = large_out,
                    .count = each[0]};
          if (operation == Operation::all_gather_v || operation == Operation::all_to_all_v)
            call.out_counts = each;
          if (operation == Operation::reduce_scatter_v || operation == Operation::all_to_all_v)
            call.in_counts = each;
          const auto thrown = thrown_by([&] { comm.call(call); });
          EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << name(operation);
          EXPECT_THAT(thrown.text, testing::HasSubstr("overflows"));
        }
        EXPECT_THAT(
            thrown_by([&] { static_cast<void>(comm.allocate<float>(std::size_t{1} << 62U)); }).text,
            testing::HasSubstr("18446744073709551615 bytes or more of registered memory are asked for"));
        expect_right(comm, {.count = 100});
      },
      over(GetParam()));
}

// From some size on plans are the same. Only addresses of buffers are looked at.
TEST_P(LargeArguments, ArePlannedAsLongOnes) {
  constexpr std::size_t fewer = std::size_t{1} << 27U;
  run_local(
      4,
      [](Communicator& comm) {
        const auto plan_of = [&](Operation operation, std::size_t count) {
          const LargeCall large(operation, count, 2);
          const std::string text = comm.explain(large.call);
          EXPECT_THAT(text, testing::StartsWith(describe(large.call) + " on 4 ranks"));
          return text.substr(text.find('\n'));
        };
        for (const Operation operation : data_operations()) {
          const std::string usual = plan_of(operation, fewer);
          EXPECT_THAT(usual, testing::HasSubstr("algorithm"));
          for (const std::size_t count : large_counts)
            EXPECT_EQ(plan_of(operation, count), usual) << name(operation) << ' ' << count;
        }
        expect_right(comm, {.count = 100});
      },
      over(GetParam()));
}

// Their first messages are equally long. Memory that nobody touches costs nothing.
TEST_P(LargeArguments, ThatDifferByTwoToThe32DoNotMatch) {
  constexpr std::size_t few = std::size_t{8} << 20U, many = few + (std::size_t{1} << 32U);
  void* const memory =
      ::mmap(nullptr, many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 4 GiB of address space may be reserved";
  for (const bool reduces : {true, false}) {
    const auto results = outcomes(2, over(GetParam(), 10s), [&](Communicator& comm) {
      std::vector<std::uint8_t> own(few);
      void* const data = comm.rank() == 0 ? own.data() : memory;
      const std::size_t count = comm.rank() == 0 ? few : many;
      if (reduces)
        comm.all_reduce(data, data, count, DataType::uint8);
      else if (comm.rank() == 0)
        comm.send(data, count, DataType::uint8, 1);
      else
        comm.receive(data, count, DataType::uint8, 0);
      comm.barrier();
    });
    int found = 0;  // one rank may hear of it from the other
    for (const auto& result : results) {
      EXPECT_TRUE(result.code == ErrorCode::mismatch || result.code == ErrorCode::aborted) << result.text;
      EXPECT_THAT(result.text, testing::HasSubstr(std::to_string(many) + " x uint8"));
      found += result.code == ErrorCode::mismatch;
    }
    EXPECT_GE(found, 1);
  }
  ::munmap(memory, many);
}

}  // namespace
}  // namespace tutti::test
