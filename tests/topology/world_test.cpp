// Ranks on machines: described worlds, and the exchange by which ranks find theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "samples.hpp"
#include "thrown.hpp"
#include "topology/exchange.hpp"
#include "topology/world.hpp"

namespace tutti::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::known;
using ::testing::SizeIs;

TEST(World, OfOneKind) {
  const World world = uniform_world(known("dgx-h100"), 3);
  EXPECT_EQ(world.size(), 24);
  EXPECT_EQ(world.machines.size(), 1U);
  EXPECT_EQ(world.seat(17).host, 2);
  EXPECT_EQ(name(world.machine(17).node(world.seat(17).device)), "gpu1");
  EXPECT_EQ(name(world.machine(17).node(world.seat(17).port)), "port1");
  EXPECT_EQ(world.host(17).nvlink_domain, "");
}

TEST(World, SeveralRanksAGpuAndRanksOnProcessors) {
  const World shared = uniform_world(known("pcie-box"), 1, 8);
  EXPECT_EQ(shared.seat(0).device, shared.seat(1).device);
  EXPECT_NE(shared.seat(1).device, shared.seat(2).device);
  Machine bare;
  bare.add(Node{.kind = NodeKind::cpu});
  EXPECT_EQ(uniform_world(bare, 2, 4).size(), 8);
  EXPECT_EQ(uniform_world(bare, 2).seat(0).port, no_node);
  EXPECT_THROW(uniform_world(bare, 0), Error);
  EXPECT_EQ(uniform_world(bare, most_ranks / 1024, 1024).size(), most_ranks);
  EXPECT_THROW(uniform_world(bare, most_ranks / 1024 + 1, 1024), Error);
  EXPECT_THROW(uniform_world(Machine{}, 1), Error);
}

TEST(World, RailsJoinTheSamePortOfEveryHost) {
  const World world = uniform_world(known("dgx-h100"), 2);
  const auto rails = rail_groups(world);
  ASSERT_THAT(rails, SizeIs(8));
  EXPECT_THAT(rails[5], ElementsAre(5, 13));
  World turned = world;  // the second host's ranks sit on its GPUs the other way round
  for (Rank rank = 8; rank < 16; ++rank)
    turned.seats[static_cast<std::size_t>(rank)].device = world.seat(23 - rank).device;
  assign_ports(turned);
  EXPECT_THAT(rail_groups(turned)[5], ElementsAre(5, 10));
}

TEST(World, RailsOfUnevenHosts) {
  World world = uniform_world(known("dgx-h100"), 2);
  world.seats.resize(11);  // three ranks on the second host
  const auto rails = rail_groups(world);
  ASSERT_THAT(rails, SizeIs(8));
  EXPECT_THAT(rails[2], ElementsAre(2, 10));
  EXPECT_THAT(rails[3], ElementsAre(3));
}

TEST(World, OfSeveralKinds) {
  World world;
  add_hosts(world, known("dgx-h100"), 2);
  add_hosts(world, known("uneven-box"), 1);
  EXPECT_EQ(world.size(), 20);
  EXPECT_EQ(world.machine(16).name, "uneven-box");
  const auto rails = rail_groups(world);
  ASSERT_THAT(rails, SizeIs(8));
  EXPECT_THAT(rails[0], ElementsAre(0, 8, 16));
  EXPECT_THAT(rails[1], ElementsAre(1, 9, 18)) << "the box's third GPU shares the first one's port";
  EXPECT_THAT(rails[7], ElementsAre(7, 15));
}

TEST(World, NvlinkDomains) {
  const World rack = uniform_world(known("nvl72"), 36);
  const auto domains = nvlink_domains(rack);
  ASSERT_THAT(domains, SizeIs(2));
  EXPECT_THAT(domains[0], SizeIs(72));
  EXPECT_EQ(domains[1].front(), 72);
  EXPECT_THAT(nvlink_domains(uniform_world(known("dgx-h100"), 2)), SizeIs(2));
  EXPECT_THAT(nvlink_domains(uniform_world(known("uneven-box"), 1)), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(nvlink_domains(uniform_world(known("pcie-box"), 2)), IsEmpty());
}

/// What every rank finds, and how many bytes all of them told in each round.
struct Found {
  std::vector<World> worlds;
  std::vector<std::size_t> bytes;
};

Found exchange_among(const std::vector<Place>& places) {
  const auto n = static_cast<std::ptrdiff_t>(places.size());
  std::barrier meet(n);
  std::vector<std::vector<std::byte>> told(places.size());
  Found found{.worlds = std::vector<World>(places.size()), .bytes = {}};
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const AllGather all_gather = [&, rank](std::span<const std::byte> mine) {
        told[rank].assign(mine.begin(), mine.end());
        meet.arrive_and_wait();
        auto all = told;
        if (rank == 0) {
          found.bytes.push_back(0);
          for (const auto& one : all) found.bytes.back() += one.size();
        }
        meet.arrive_and_wait();
        return all;
      };
      found.worlds[rank] = exchange(static_cast<Rank>(rank), places[rank], all_gather);
    });
  }
  ranks.clear();
  return found;
}

TEST(Exchange, EqualMachinesGoOnce) {
  const Machine machine = known("dgx-h100");
  std::vector<Place> places;
  for (int rank = 0; rank < 16; ++rank)
    places.push_back({.machine = machine,
                      .host = rank < 8 ? "one" : "two",
                      .device = machine.find("gpu" + std::to_string(rank % 8))});
  places[3].machine.name = "called otherwise";
  const Found found = exchange_among(places);
  const World expected = uniform_world(machine, 2);
  for (const World& world : found.worlds) {
    EXPECT_EQ(world.seats, expected.seats);
    EXPECT_EQ(world.hosts, expected.hosts);
    ASSERT_EQ(world.machines.size(), 1U);
    EXPECT_EQ(world.machines[0].links, machine.links);
  }
  ASSERT_EQ(found.bytes.size(), 2U);
  EXPECT_LT(found.bytes[0], 16 * 120U);
  EXPECT_LT(found.bytes[1], 12'000U) << "one description";
}

TEST(Exchange, DifferentMachinesAndViews) {
  const Machine rack = known("nvl72"), box = known("pcie-box");
  Machine part = box;  // what a container with one GPU sees of the same host: fewer devices
  part.nodes.erase(part.nodes.begin() + part.find("gpu3"), part.nodes.begin() + part.find("gpu3") + 1);
  std::erase_if(part.links,
                [&](const Link& link) { return link.a == box.find("gpu3") || link.b == box.find("gpu3"); });
  for (Link& link : part.links)
    for (NodeId* end : {&link.a, &link.b})
      if (*end > box.find("gpu3")) --*end;
  const Found found =
      exchange_among({{.machine = rack, .host = "a", .nvlink_domain = "x", .device = rack.find("gpu2")},
                      {.machine = part, .host = "b", .device = part.find("gpu2")},
                      {.machine = box, .host = "b", .device = box.find("gpu3")}});
  const World& world = found.worlds[1];
  EXPECT_EQ(world.machines.size(), 2U);
  EXPECT_EQ(world.host(0).nvlink_domain, "x");
  EXPECT_EQ(world.seat(1).host, world.seat(2).host);
  EXPECT_EQ(name(world.machine(1).node(world.seat(1).device)), "gpu2");
  EXPECT_EQ(name(world.machine(2).node(world.seat(2).device)), "gpu3");
  EXPECT_EQ(found.worlds[0].seats, world.seats);
}

TEST(Exchange, NamesOfHostsNeedBeNoText) {
  const Machine box = known("pcie-box");
  const NodeId gpu = box.find("gpu0");
  const Found found = exchange_among(
      {{.machine = box, .host = "a\xfe", .device = gpu}, {.machine = box, .host = "a\xff", .device = gpu}});
  for (const World& world : found.worlds) EXPECT_THAT(world.hosts, SizeIs(2));
}

TEST(Exchange, ThisProcessHasAPlace) {
  const Place place = this_place();
  EXPECT_EQ(place.machine.node(place.device).kind, NodeKind::cpu);
  EXPECT_EQ(place.host, this_place().host);
  EXPECT_LT(exchange_among({place}).bytes.at(0), 110 + place.nvlink_domain.size());
  EXPECT_THROW(this_place(4000), Error);
}

TEST(Exchange, BytesThatAreNotUnderstood) {
  const Machine machine = known("pcie-box");
  const Place place{.machine = machine, .host = "h", .device = machine.find("gpu0")};
  const auto alone = [&](int bad_round) {
    int round = 0;
    return exchange(0, place, [&, bad_round](std::span<const std::byte> mine) mutable {
      std::vector<std::byte> bytes(mine.begin(), mine.end());
      if (round++ == bad_round) bytes.resize(bytes.size() / 2);
      return std::vector<std::vector<std::byte>>{bytes};
    });
  };
  EXPECT_NO_THROW(alone(9));
  for (const int round : {0, 1}) {
    const auto error = test::thrown_by([&] { alone(round); });
    EXPECT_EQ(error.code, ErrorCode::mismatch) << round;
    EXPECT_THAT(error.ranks, ElementsAre(0));
    EXPECT_THAT(error.text, HasSubstr("same version"));
  }
}

}  // namespace
}  // namespace tutti::topology
