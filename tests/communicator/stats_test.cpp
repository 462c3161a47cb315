// Stats::operations: the calls of the program, each once, and nothing else. Stats::memory_held.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "communicator/bytes_of_arenas.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

class Counters : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Counters, testing::Values("shm", "tcp"), transport_name);

TEST_P(Counters, OfOperationsAreThoseOfTheProgram) {
  run_local(
      3,
      [](Communicator& comm) {
        std::vector<float> data(8, 1), out(8);
        const auto counted = [&](const auto& calls) {
          const auto before = comm.stats().operations;
          calls();
          return comm.stats().operations - before;
        };
        EXPECT_EQ(comm.stats().operations, 0U);
        EXPECT_EQ(counted([&] { comm.barrier(); }), 1U);
        EXPECT_EQ(counted([&] { comm.all_reduce(std::span(data)); }), 1U);
        EXPECT_EQ(counted([&] {
                    for (int i = 0; i < 5; ++i) comm.all_reduce(std::span(data));
                  }),
                  5U);
        EXPECT_EQ(counted([&] { comm.all_reduce(std::span(data).first(0)); }), 1U) << "also of nothing";
        EXPECT_EQ(counted([&] { comm.async().broadcast(std::span(data), 1).wait(); }), 1U);
        EXPECT_EQ(counted([&] {
                    Group group = comm.group();
                    group.send(std::span<const float>(data), comm.rank());
                    group.receive(std::span(out), comm.rank());
                    group.send(std::span<const float>(data), (comm.rank() + 1) % 3);
                    group.receive(std::span(data), (comm.rank() + 2) % 3);
                    group.barrier();
                    group.run();
                  }),
                  5U)
            << "two of them to oneself";
        EXPECT_EQ(counted([&] { static_cast<void>(comm.split(0)); }), 0U);
        EXPECT_EQ(counted([&] { static_cast<void>(comm.duplicate()); }), 0U);
        EXPECT_EQ(counted([&] { static_cast<void>(comm.allocate<float>(8)); }), 0U);
      },
      over(GetParam()));
}

TEST(MemoryHeld, IsWhatTheRingsTake) {
  std::atomic<std::size_t> held = 0;
  run_local(
      5,
      [&](Communicator& comm) {
        held += comm.stats().memory_held;
        comm.barrier();
        EXPECT_LE(held, bytes_of_arenas());
        comm.barrier();
      },
      over("shm"));
}

}  // namespace
}  // namespace tutti::test
