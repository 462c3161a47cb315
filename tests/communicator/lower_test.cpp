// Which instructions the steps of a schedule become.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/algorithms.hpp"
#include "execution/lower.hpp"
#include "gpu/flatten.hpp"

namespace tutti {

namespace {

using Kind = execution::Instruction::Kind;

// The kinds of rank 0's instructions of an all_gather among four, lane by lane.
std::vector<std::vector<Kind>> kinds_of(std::size_t block, std::size_t sends_apart, bool in_place = false) {
  constexpr int ranks = 4;
  const Schedule schedule = find_algorithm(Collective::all_gather, "all_pairs")->make(ranks, 0, 1);
  execution::Shape shape;
  shape.input = {{0, block}};
  for (std::size_t r = 0; r < ranks; ++r) shape.output.push_back({r * block, block});
  execution::LowerSettings settings;
  settings.piece = settings.max_message = 64 << 10;
  settings.sends_apart = sends_apart;
  settings.in_place = in_place;
  gpu::NamedChannels channels;
  const auto program =
      execution::lower(schedule, execution::overview_of(schedule), 0, shape, settings, channels);
  std::vector<std::vector<Kind>> kinds;
  for (const auto& lane : program.lanes) {
    kinds.emplace_back();
    for (const execution::Part& part : lane)
      for (const execution::Instruction& i : part.instructions) {
        kinds.back().push_back(i.kind);
        for (std::uint32_t k = 0; k < i.sinks && i.kind != Kind::fold; ++k)
          EXPECT_EQ(program.sinks[i.first_sink + k].sender != nullptr, i.kind == Kind::send);
      }
  }
  return kinds;
}

}  // namespace

TEST(Lower, SendsApartWhatIsShort) {
  EXPECT_EQ(kinds_of(1000, 1000),
            (std::vector<std::vector<Kind>>{{Kind::send, Kind::copy},
                                            {Kind::receive, Kind::receive, Kind::receive}}));
  EXPECT_EQ(kinds_of(1000, 1000, true)[0], std::vector{Kind::send});  // nothing to copy
}

TEST(Lower, ReadsOnceWhatIsLong) {
  const auto once = std::vector{Kind::fold};
  EXPECT_EQ(kinds_of(1000, 999)[0], once);
  EXPECT_EQ(kinds_of(1000, 0)[0], once);
}

}  // namespace tutti
