// Which instructions the steps of a schedule become.
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "collectives/algorithms.hpp"
#include "collectives/partial_build.hpp"
#include "execution/lower.hpp"
#include "gpu/flatten.hpp"
#include "thrown.hpp"

namespace tutti {

namespace {

using Kind = execution::Instruction::Kind;

// Of four ranks.
execution::Shape blocks(std::size_t bytes) {
  execution::Shape shape;
  shape.input = {{0, bytes}};
  for (std::size_t r = 0; r < 4; ++r) shape.output.push_back({r * bytes, bytes});
  return shape;
}

// The kinds of rank 0's instructions, lane by lane.
std::vector<std::vector<Kind>> kinds_of(const Schedule& schedule, const execution::Shape& shape,
                                        execution::LowerSettings settings) {
  settings.piece = settings.max_message = 64 << 10;
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

std::vector<std::vector<Kind>> kinds_of_all_gather(const execution::LowerSettings& settings) {
  return kinds_of(find_algorithm(Collective::all_gather, "all_pairs")->make(4, 0, 1), blocks(1000), settings);
}

}  // namespace

TEST(Lower, OnlyOneRankOfABroadcastMulticasts) {
  const auto lone = [](Collective collective, const char* name, int ranks) {
    return execution::overview_of(find_algorithm(collective, name)->make(ranks, 0, 1)).lone_multicast;
  };
  EXPECT_TRUE(lone(Collective::broadcast, "all_pairs", 4));
  EXPECT_FALSE(lone(Collective::broadcast, "all_pairs", 2));  // no multicast
  EXPECT_FALSE(lone(Collective::broadcast, "tree", 4));
  EXPECT_FALSE(lone(Collective::all_gather, "all_pairs", 4));
  EXPECT_FALSE(lone(Collective::all_reduce, "two_shot", 4));
}

TEST(Lower, KnowsSchedulesThatGoOneWay) {
  const auto one_way = [](Collective collective, std::string_view name, int ranks) {
    return execution::overview_of(find_algorithm(collective, name)->make(ranks, 0, 1)).one_way;
  };
  for (const int ranks : {2, 4}) {
    for (const Collective collective :
         {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
      EXPECT_TRUE(one_way(collective, "all_pairs", ranks)) << name(collective);
    EXPECT_FALSE(one_way(Collective::all_gather, "all_pairs", ranks));
    EXPECT_FALSE(one_way(Collective::all_to_all, "pairwise", ranks));
    EXPECT_FALSE(one_way(Collective::all_reduce, "two_shot", ranks));
  }
  EXPECT_TRUE(one_way(Collective::broadcast, "tree", 2));
  EXPECT_FALSE(one_way(Collective::broadcast, "tree", 4));  // its second rank sends on
  EXPECT_FALSE(one_way(Collective::gather, "all_pairs", 1));
}

TEST(Lower, SchedulesThatGoOneWayHaveFifosOfTheirOwn) {
  struct Streams final : execution::Channels {
    transport::Sender& sender(Rank peer, int channel) override { return pairs.sender(peer, channel); }
    transport::Receiver& receiver(Rank peer, int channel) override { return pairs.receiver(peer, channel); }
    transport::Sender& stream_sender(Rank peer, int channel) override {
      ++streams;
      return pairs.sender(peer, channel);
    }
    transport::Receiver& stream_receiver(Rank peer, int channel) override {
      ++streams;
      return pairs.receiver(peer, channel);
    }
    gpu::NamedChannels pairs;
    int streams = 0;
  };
  const auto streams = [](Collective collective, std::string_view name, Rank rank) {
    const Schedule schedule = find_algorithm(collective, name)->make(4, 0, 1);
    execution::Shape shape;
    shape.input = shape.output = execution::equal_blocks(1000, 4);
    Streams channels;
    (void)execution::lower(schedule, execution::overview_of(schedule), rank, shape,
                           {.piece = 64 << 10, .max_message = 64 << 10}, channels);
    return channels.streams;
  };
  EXPECT_EQ(streams(Collective::scatter, "all_pairs", 0), 3);
  EXPECT_EQ(streams(Collective::scatter, "all_pairs", 1), 1);
  EXPECT_EQ(streams(Collective::gather, "all_pairs", 0), 3);
  EXPECT_EQ(streams(Collective::all_to_all, "pairwise", 0), 0);
}

TEST(Lower, ALoneWriterHasAMulticastOfItsOwn) {
  struct Multicasts final : execution::Channels {
    transport::Sender& sender(Rank peer, int channel) override { return pairs.sender(peer, channel); }
    transport::Receiver& receiver(Rank peer, int channel) override { return pairs.receiver(peer, channel); }
    [[nodiscard]] bool multicasts() const override { return true; }
    transport::Sender* multicast_sender(int channel) override {
      used.insert(channel);
      return &pairs.sender(-1, channel);
    }
    transport::Receiver* multicast_receiver(Rank /*from*/, int channel) override {
      used.insert(channel);
      return &pairs.receiver(-1, channel);
    }
    gpu::NamedChannels pairs;
    std::set<int> used;
  };
  const auto used = [](Collective collective, const execution::Shape& shape, Rank rank) {
    const Schedule schedule = find_algorithm(collective, "all_pairs")->make(4, 0, 1);
    Multicasts channels;
    (void)execution::lower(schedule, execution::overview_of(schedule), rank, shape,
                           {.piece = 64 << 10, .max_message = 64 << 10}, channels);
    return channels.used;
  };
  execution::Shape whole;
  whole.input = whole.output = {{0, 1000}};
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(used(Collective::broadcast, whole, rank), std::set{transport::lone_channel});
    EXPECT_EQ(used(Collective::all_gather, blocks(1000), rank), std::set{0});
  }
}

TEST(Lower, OnlyMessagesMustBeShort) {
  constexpr int chunks = 2048, sent = 64;
  Builder b("copied at once", Collective::broadcast, 2, chunks);
  b.at(0).store(out(0, chunks)).fold(in(0, chunks));
  for (int c = 0; c < chunks; c += sent) {
    b.at(0).fold(in(c, sent)).to(1, 0, sent);
    b.at(1).store(out(c, sent)).from(0, 0, sent);
  }
  const Schedule schedule = std::move(b).build();
  execution::Shape shape;
  shape.divisible = true;
  shape.total = 4 << 20;
  for (Rank rank = 0; rank < 2; ++rank) {
    gpu::NamedChannels channels;
    const auto program = execution::lower(schedule, execution::overview_of(schedule), rank, shape,
                                          {.piece = 64 << 10, .max_message = 64 << 10}, channels);
    EXPECT_EQ(program.piece, (64U << 10) / sent);
  }
}

// As in shared memory, where 512 ranks have 8 KiB for a message, and some messages all blocks of half of
// them.
TEST(Lower, CutsMessagesOfHundredsOfChunksShort) {
  constexpr int ranks = 512;
  constexpr std::size_t bytes = 1 << 20, block = bytes / ranks, longest = 8192;
  execution::Shape divided, blocks;
  divided.divisible = true;
  divided.total = bytes;
  blocks.input = {{0, block}};
  for (std::size_t r = 0; r < ranks; ++r) blocks.output.push_back({r * block, block});
  for (const auto& [collective, name, shape] :
       {std::tuple(Collective::all_reduce, "halving_doubling", divided),
        std::tuple(Collective::all_gather, "doubling", blocks)}) {
    const PartialBuild build(std::vector<Rank>{1});
    const Schedule schedule = find_algorithm(collective, name)->make(ranks, 0, 1);
    gpu::NamedChannels channels;
    const auto program =
        execution::lower(schedule, execution::overview_of(schedule), 1, shape,
                         {.piece = 64 << 10, .max_message = longest, .type = DataType::float64}, channels);
    EXPECT_EQ(program.message_bytes, longest) << name;
  }
}

TEST(Lower, SendsApartWhatIsShort) {
  EXPECT_EQ(kinds_of_all_gather({.sends_apart = 1000}),
            (std::vector<std::vector<Kind>>{{Kind::send, Kind::copy},
                                            {Kind::receive, Kind::receive, Kind::receive}}));
  EXPECT_EQ(kinds_of_all_gather({.sends_apart = 1000, .in_place = true})[0],
            std::vector{Kind::send});  // nothing to copy
}

TEST(Lower, ReadsOnceWhatIsLong) {
  const auto once = std::vector{Kind::fold};
  EXPECT_EQ(kinds_of_all_gather({.sends_apart = 999})[0], once);
  EXPECT_EQ(kinds_of_all_gather({.sends_apart = 0})[0], once);
}

// By the figures of the whole schedule, so that every rank refuses it.
TEST(Lower, RefusesMessagesThatAreTooLong) {
  const auto lower = [](int chunks, DataType type) {  // where messages have 64 KiB
    Builder b("long", Collective::broadcast, 2, chunks);
    b.at(0).fold(in(0, chunks)).to(1, 0, chunks);
    b.at(1).from(0, 0, chunks).store(out(0, chunks));
    kinds_of(std::move(b).build(), {.divisible = true, .total = 1 << 20, .input = {}, .output = {}},
             {.type = type});
  };
  EXPECT_NO_THROW(lower(10'000, DataType::uint8));
  const auto error = test::thrown_by([&] { lower(10'000, DataType::float64); });
  EXPECT_EQ(error.code, ErrorCode::invalid_schedule);
  EXPECT_NE(error.text.find("schedule long: a message of 10000 chunks"), std::string::npos);
}

// An answer of one of the two may come into what the other is still to get.
TEST(Lower, KeepsStepsWholeWhereAsked) {
  const auto kinds = [](bool whole) {
    Builder b("two", Collective::broadcast, 4, 1);
    b.at(0).fold(in(0)).to(1).to(2);
    b.at(0).fold(in(0)).to(3);
    b.at(0).store(out(0)).fold(in(0)).to(1);
    const Schedule schedule = std::move(b).build();
    return kinds_of(schedule, {.divisible = true, .total = 64, .input = {}, .output = {}},
                    {.sends_apart = 64, .whole_steps = whole})[0];
  };
  EXPECT_EQ(kinds(false), (std::vector{Kind::send, Kind::send, Kind::fold}));
  EXPECT_EQ(kinds(true), (std::vector{Kind::fold, Kind::send, Kind::fold}));
  EXPECT_EQ(kinds_of_all_gather({.sends_apart = 1000, .whole_steps = true})[0], std::vector{Kind::fold});
}

}  // namespace tutti
