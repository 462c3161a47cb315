// Which results of a lowered schedule go past the caches, and that they are the same.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/algorithms.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "execution/lower.hpp"
#include "gpu/flatten.hpp"

namespace tutti {

namespace {

constexpr std::size_t total = std::size_t{1} << 20;

struct Results {
  int received = 0, others = 0;                    // memory sinks in the output
  int streamed_received = 0, streamed_others = 0;  // of these
};

Results results_of(Collective collective, std::string_view algorithm,
                   const execution::LowerSettings& settings) {
  constexpr int ranks = 4;
  const Schedule schedule = find_algorithm(collective, algorithm)->make(ranks, 0, 1);
  execution::Shape shape;
  shape.divisible = true;
  shape.total = total;
  gpu::NamedChannels channels;
  Results found;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const execution::Program program =
        execution::lower(schedule, execution::overview_of(schedule), rank, shape, settings, channels);
    for (const auto& lane : program.lanes)
      for (const execution::Part& part : lane)
        for (const execution::Instruction& i : part.instructions)
          for (std::uint32_t k = 0; k < i.sinks; ++k) {
            if (program.sinks[i.first_sink + k].base != execution::Base::output) continue;
            if (program.sinks[i.first_sink + k].sender != nullptr) continue;
            const bool receives = i.sources == 1 && program.sources[i.first_source].receiver != nullptr;
            const bool streams = ((i.streaming_sinks >> k) & 1) != 0;
            ++(receives ? found.received : found.others);
            if (streams) ++(receives ? found.streamed_received : found.streamed_others);
            // Transports that receive straight into memory do not ask how.
            EXPECT_FALSE(streams && i.kind == execution::Instruction::Kind::receive);
          }
  }
  return found;
}

execution::LowerSettings settings_of(std::size_t stream_from, std::size_t stream_received_from) {
  execution::LowerSettings settings;
  settings.piece = 64 << 10;
  settings.max_message = 64 << 10;
  settings.stream_from = stream_from;
  settings.stream_received_from = stream_received_from;
  return settings;
}

}  // namespace

TEST(Streaming, TakesWhatIsReceivedFromItsSizeOn) {
  const Results at = results_of(Collective::all_reduce, "ring", settings_of(total + 1, total));
  EXPECT_GT(at.received, 0);
  EXPECT_GT(at.others, 0);
  EXPECT_EQ(at.streamed_received, at.received);
  EXPECT_EQ(at.streamed_others, 0);
  const Results below = results_of(Collective::all_reduce, "ring", settings_of(total + 1, total + 1));
  EXPECT_EQ(below.streamed_received + below.streamed_others, 0);
}

TEST(Streaming, TakesAllResultsFromTheirSizeOn) {
  const Results at = results_of(Collective::all_reduce, "ring", settings_of(total, total + 1));
  EXPECT_EQ(at.streamed_received, at.received);
  EXPECT_EQ(at.streamed_others, at.others);
}

TEST(Streaming, KeepsItsSinksInBroadcasts) {
  const Results at = results_of(Collective::broadcast, "chain", settings_of(total + 1, total));
  EXPECT_GT(at.received, 0);
  EXPECT_EQ(at.streamed_received, at.received);
}

TEST(Streaming, ChangesNoResult) {
  Options options = test::over("shm");
  options.stream_from = 0;
  run_local(
      4,
      [](Communicator& comm) {
        for (const Operation operation : test::data_operations())
          for (const std::size_t count : {1, 37, 40000})
            for (const bool in_place : {false, true}) {
              if (in_place && !test::can_be_in_place(operation)) continue;
              test::expect_right(comm, {.operation = operation, .count = count, .in_place = in_place});
            }
      },
      options);
}

}  // namespace tutti
