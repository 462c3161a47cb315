#include "topology/exchange.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include <tutti/error.hpp>

#include "topology/json.hpp"

namespace tutti::topology {

namespace {

/// What a rank says of itself. Its device goes by address and name, as another rank's view of the host may
/// count.
struct Card {
  std::uint64_t hash = 0;
  std::size_t devices = 0;
  std::string host{}, nvlink_domain{}, pci{}, device{};
};

using Json = nlohmann::ordered_json;  // as json.cpp's: each kind takes long to compile

std::vector<std::byte> bytes_of(const Json& json) {
  const auto raw = Json::to_cbor(json);
  const auto bytes = std::as_bytes(std::span(raw));
  return {bytes.begin(), bytes.end()};
}

[[noreturn]] void not_understood(std::size_t rank, const std::string& why) {
  throw Error(ErrorCode::mismatch,
              "what rank " + std::to_string(rank) + " says of its machine is not understood (" + why +
                  "); all ranks must run the same version of tutti",
              {static_cast<Rank>(rank)});
}

std::vector<std::byte> card_of(const Place& place) {
  const Node& device = place.machine.node(place.device);
  return bytes_of(Json::array({hash(place.machine), place.machine.nodes.size(), place.host,
                               place.nvlink_domain, device.pci, name(device)}));
}

Card card_from(const std::vector<std::byte>& bytes, std::size_t rank) {
  try {
    const Json json = Json::from_cbor(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                      reinterpret_cast<const std::uint8_t*>(bytes.data() + bytes.size()));
    return {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5)};
  } catch (const Json::exception& error) {
    not_understood(rank, error.what());
  }
}

Machine machine_from(const std::vector<std::byte>& bytes, std::size_t rank) {
  try {
    return from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error& error) {
    not_understood(rank, error.what());
  }
}

NodeId device_of(const Machine& machine, const Card& card, std::size_t rank) {
  for (const NodeId id : {machine.find(card.pci), machine.find(card.device)})
    if (id != no_node) return id;
  const auto cpus = machine.all(NodeKind::cpu);
  if (cpus.empty()) not_understood(rank, "a machine without processors");
  return cpus.front();
}

}  // namespace

World exchange(Rank me, const Place& mine, const AllGather& all_gather) {
  std::vector<Card> cards;
  for (const auto& bytes : all_gather(card_of(mine))) cards.push_back(card_from(bytes, cards.size()));

  // For each kind of machine the first rank on one describes it.
  std::map<std::uint64_t, std::size_t> describer;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) describer.emplace(cards[rank].hash, rank);
  const bool mine_is_wanted =
      describer.at(cards[static_cast<std::size_t>(me)].hash) == static_cast<std::size_t>(me);
  const std::string description = mine_is_wanted ? to_json(mine.machine) : "";
  const auto descriptions = all_gather(std::as_bytes(std::span(description)));

  World world;
  std::map<std::uint64_t, int> machines;
  std::map<std::string, std::size_t> hosts;  // by Card::host, index in world.hosts
  std::vector<std::size_t> seen_by;          // the rank whose view of the host counts
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const auto [at, added] = hosts.emplace(cards[rank].host, seen_by.size());
    if (added) seen_by.push_back(rank);
    auto& best = seen_by[at->second];
    if (cards[rank].devices > cards[best].devices) best = rank;
  }
  for (const std::size_t rank : seen_by) {
    const auto [at, added] = machines.emplace(cards[rank].hash, static_cast<int>(world.machines.size()));
    const std::size_t by = describer.at(cards[rank].hash);
    if (added) world.machines.push_back(machine_from(descriptions[by], by));
    world.hosts.push_back({.machine = at->second, .nvlink_domain = cards[rank].nvlink_domain});
  }
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const std::size_t host = hosts.at(cards[rank].host);
    const Machine& machine = world.machines[static_cast<std::size_t>(world.hosts[host].machine)];
    world.seats.push_back({.host = static_cast<int>(host), .device = device_of(machine, cards[rank], rank)});
  }
  assign_ports(world);
  return world;
}

}  // namespace tutti::topology
