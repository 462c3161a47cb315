// The graph itself, and tutti's own form of it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/json_depth.hpp"
#include "samples.hpp"
#include "thrown.hpp"
#include "topology/assemble.hpp"
#include "topology/json.hpp"
#include "topology/machine.hpp"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;
using testing::known;
using testing::refusal;
using testing::with;

TEST(Machine, NumbersAndFindsItsDevices) {
  Machine machine;
  const NodeId cpu = machine.add(Node{.kind = NodeKind::cpu});
  const NodeId first = machine.add(Node{.kind = NodeKind::gpu, .pci = "0000:01:00.0"});
  const NodeId second = machine.add(Node{.kind = NodeKind::gpu, .label = "the other"});
  const LinkId link = machine.add(Link{.a = cpu, .b = first, .bandwidth = 1});
  EXPECT_EQ(name(machine.node(second)), "gpu1");
  EXPECT_EQ(machine.find("gpu0"), first);
  for (const char* address : {"0000:01:00.0", "01:00.0", "00000000:01:00.0"})
    EXPECT_EQ(machine.find(address), first) << address;
  EXPECT_EQ(machine.find("the other"), second);
  EXPECT_EQ(machine.find(""), no_node);
  EXPECT_EQ(machine.find("gpu2"), no_node);
  EXPECT_EQ(machine.other_end(link, cpu), first);
  EXPECT_EQ(machine.all(NodeKind::gpu), (std::vector{first, second}));
}

TEST(Machine, RefusesWhatIsNone) {
  const Machine good = known("uneven-box");
  const auto refuses = [&](auto spoil, const char* why) {
    Machine bad = good;
    spoil(bad);
    const auto error = test::thrown_by([&] { check(bad); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_THAT(error.text, HasSubstr(why));
  };
  EXPECT_NO_THROW(check(good));
  refuses([](Machine& bad) { bad.links[0].b = 1000; }, "joins nodes");
  refuses([](Machine& bad) { bad.links[0].b = bad.links[0].a; }, "linked to itself");
  refuses([](Machine& bad) { bad.links[0].bandwidth = 0; }, "0 GB/s");
  refuses([](Machine& bad) { bad.links[0].bandwidth = 1e-320; }, "GB/s");  // a byte takes for ever
  refuses([](Machine& bad) { bad.links[0].latency = std::numeric_limits<double>::quiet_NaN(); }, "nan us");
  refuses([](Machine& bad) { bad.links[0].count = 0; }, "count 0");
  refuses([](Machine& bad) { bad.links[0].count = 2'000'000; }, "count 2000000");
  refuses(
      [](Machine& bad) { bad.nodes[2].kind = bad.nodes[0].kind, bad.nodes[2].index = bad.nodes[0].index; },
      "two nodes are cpu0");
  refuses([](Machine& bad) { bad.nvlink_machines = 0; }, "nvlink_machines");
  refuses([](Machine& bad) { bad.nvlink_machines = 2; }, "no nvswitch to share");
  refuses(
      [](Machine& bad) { bad.links.push_back(*std::ranges::find(bad.links, LinkKind::pcie, &Link::kind)); },
      "hangs on two PCIe links");
  refuses(
      [](Machine& bad) {
        const NodeId a = bad.add(Node{.kind = NodeKind::bridge}), b = bad.add(Node{.kind = NodeKind::bridge});
        bad.add(Link{.a = a, .b = b, .bandwidth = 1});
        bad.add(Link{.a = b, .b = a, .bandwidth = 1});
      },
      "are a circle");
  // Who walks down from a processor comes to an end.
  refuses(
      [](Machine& bad) {
        const NodeId a = bad.add(Node{.kind = NodeKind::bridge}), b = bad.add(Node{.kind = NodeKind::bridge});
        for (const auto& [from, to] : {std::pair{bad.find("cpu0"), a}, {a, b}, {b, a}})
          bad.add(Link{.a = from, .b = to, .kind = LinkKind::c2c, .bandwidth = 1});
      },
      "no c2c link leads from cpu0 to bridge1");
  for (const auto& [what, from, to] : {std::tuple{LinkKind::memory, "cpu0", "cpu1"},
                                       {LinkKind::socket, "cpu0", "gpu0"},
                                       {LinkKind::pcie, "gpu0", "nic0"},
                                       {LinkKind::pcie, "cpu0", "cpu1"},
                                       {LinkKind::nvlink, "gpu0", "nic0"},
                                       {LinkKind::wire, "port0", "nic0"}})
    refuses(
        [of = what, a = from, b = to](Machine& bad) {
          bad.add(Link{.a = bad.find(a), .b = bad.find(b), .kind = of, .bandwidth = 1});
        },
        "link leads from");
  Machine growing;
  EXPECT_THROW(for (std::size_t i = 0; i <= most_nodes; ++i) growing.add(Node{}), Error);
}

TEST(PeerLinks, AreNotCountedBeyondWhatIsRefused) {
  Machine machine;
  const NodeId cpu = add_cpu(machine, Node{});
  const NodeId gpu = add_device(machine, cpu, {.kind = NodeKind::gpu}, std::nullopt);
  const PeerLinks::Ends ends{gpu, the_nvswitch(machine), LinkKind::nvlink};
  PeerLinks told;
  for (int i = 0; i < 4; ++i) told.tell(ends, 1 << 30, 20);
  told.tell(ends, 4, 20);  // 2^32 + 4 in all
  told.join(machine);
  EXPECT_EQ(machine.links.back().count, most_side_by_side + 1);
  EXPECT_THROW(check(machine), Error);
}

TEST(MachineJson, ComesBackAsItWas) {
  for (const std::string& name : builtin_names()) {
    Machine machine = known(name);
    machine.unseen = {"what \"quotes\" and \\ hide"};
    const Machine back = from_json(to_json(machine));
    EXPECT_EQ(back.nodes, machine.nodes) << name;
    EXPECT_EQ(back.links, machine.links) << name;
    EXPECT_EQ(back.unseen, machine.unseen);
    EXPECT_EQ(back.name, machine.name);
    EXPECT_EQ(back.nvlink_machines, machine.nvlink_machines);
    EXPECT_EQ(hash(back), hash(machine));
  }
}

TEST(MachineJson, TheHashIsThatOfTheBuild) {
  const Machine machine = known("dgx-h100");
  Machine other = machine;
  other.name = "another of the kind";
  other.unseen = {"something"};
  EXPECT_EQ(hash(other), hash(machine));
  other.links.back().bandwidth += 1;
  EXPECT_NE(hash(other), hash(machine));
  EXPECT_NE(hash(known("nvl72")), hash(machine));
}

TEST(HashOfParts, IsThatOfProcessorsAndDevices) {
  const Machine machine = known("dgx-h100");
  Machine other = machine;
  for (Link& link : other.links) link.bandwidth /= 2;
  for (Node& node : other.nodes)
    if (node.kind == NodeKind::port) node.label += "0";
  const NodeId nic = add_device(other, 0, {.kind = NodeKind::nic}, std::nullopt);
  add_unknown_port(other, nic, {.label = "eth7"});
  EXPECT_NE(hash(other), hash(machine));
  EXPECT_EQ(hash_of_parts(other), hash_of_parts(machine)) << "an interface came, and cables changed";
  add_device(other, 0, {.kind = NodeKind::gpu, .pci = "0000:ff:00.0"}, std::nullopt);
  EXPECT_NE(hash_of_parts(other), hash_of_parts(machine));
  Machine driven = machine;
  const NodeId bridge =
      add_device(driven, 0, {.kind = NodeKind::bridge, .pci = "0000:e0:00.0"}, std::nullopt);
  add_device(driven, bridge,
             {.kind = NodeKind::gpu, .pci = "0000:e1:00.0", .details = {{"class", "0x030000"}}},
             std::nullopt);
  EXPECT_EQ(hash_of_parts(driven), hash_of_parts(machine)) << "a display controller got a driver";
  Machine processors = machine;
  processors.node(processors.find("cpu0")).details["model"] = "another";
  EXPECT_NE(hash_of_parts(processors), hash_of_parts(machine));
}

TEST(MachineJson, ErrorsSayWhatIsWrongAndWhere) {
  EXPECT_THAT(refusal("{\"tutti_topology\": 1,\n \"nodes\": [}"), HasSubstr("line 2"));
  EXPECT_THAT(refusal(R"({"tutti_topology": 2})"), HasSubstr("version 2"));
  EXPECT_THAT(refusal(R"({"nodes": []})"), HasSubstr("tutti_topology"));
  EXPECT_THAT(refusal(R"({"tutti_topology": 1, "nodes": [{"node": "gpu"}], "links": []})"),
              HasSubstr("\"gpu\""));
  EXPECT_THAT(refusal(R"({"tutti_topology": 1, "nodes": [{"node": "tpu0"}], "links": []})"),
              HasSubstr("\"tpu\""));
  EXPECT_THAT(
      refusal(R"({"tutti_topology": 1, "nodes": [{"node": "gpu0"}], "links": [{"link": "pcie", "a": "gpu0",
                          "b": "cpu0", "bandwidth_gbs": 1, "latency_us": 1}]})"),
      HasSubstr("JSON: row 1 of \"links\": a link ends at \"cpu0\""));
  for (const char* rows : {"7", "null", R"({"node": {"node": "gpu0"}})"})
    EXPECT_THAT(refusal(fmt::format(R"({{"tutti_topology": 1, "nodes": {}, "links": []}})", rows)),
                HasSubstr("JSON: \"nodes\" is no list"));
  EXPECT_THAT(refusal(R"({"tutti_topology": 1, "nodes": [{"node": "gpu0"}, {"node": 1}], "links": []})"),
              HasSubstr("row 2 of \"nodes\""));
  EXPECT_THAT(refusal(R"({"tutti_topology": 1, "nodes": [{"node": "gpu0", "pci": "\"/><x"}], "links": []})"),
              HasSubstr("is no PCI address"));
  EXPECT_THAT(refusal(with(to_json(known("nvl72")), R"("package":1)", R"("package":1.5)")),
              HasSubstr("JSON: row 3 of \"nodes\": \"package\" is no whole number"));
  EXPECT_THAT(refusal(R"({"tutti_topology": 1, "nodes": [{"node": "gpu0"}, {"node": "gpu0"}], "links": []})"),
              HasSubstr("topology: two nodes are gpu0"));
}

TEST(MachineJson, NumbersAreNotCutToFit) {
  const std::string good = to_json(known("nvl72"));
  EXPECT_EQ(refusal(good), "");
  for (const auto& [key, value] : {std::pair{"\"tutti_topology\": ", "1"},
                                   {"\"nvlink_machines\": ", "18"},
                                   {"\"package\":", "1"},
                                   {"\"count\":", "18"}})
    for (const char* bad : {"4294967297", "1.5", "1e300", "true"}) {
      const std::string told = std::string(key) + value;
      EXPECT_THAT(refusal(with(good, told, std::string(key) + bad)), HasSubstr("is no whole number"))
          << key << bad;
    }
}

// What is not known is passed over, in a time that grows as the text does.
TEST(MachineJson, ManyKeys) {
  std::string text = R"({"tutti_topology": 1, "nodes": [], "links": [])";
  for (int i = 0; i < 500'000; ++i) text += ",\n\"" + std::to_string(i) + "\": 0";
  EXPECT_EQ(refusal(text + "}"), "");
}

// What is passed over may nest, but not so deep that reading it takes a gigabyte. Brackets in names count for
// nothing.
TEST(MachineJson, IsNotDeep) {
  const auto more = [](const std::string& text) {
    return R"({"tutti_topology": 1, "nodes": [], "links": [], "more": )" + text + "}";
  };
  const auto nested = [&](int deep) {
    const auto count = static_cast<std::size_t>(deep - 1);  // what they are in counts, too
    return more(std::string(count, '[') + std::string(count, ']'));
  };
  EXPECT_EQ(refusal(nested(most_json_depth)), "");
  EXPECT_THAT(refusal(nested(most_json_depth + 1)), HasSubstr("nests deeper than"));
  EXPECT_THAT(refusal("{\"a\": " + std::string(std::size_t{16} << 20U, '[')), HasSubstr("nests deeper than"));
  EXPECT_EQ(refusal(more(R"("\\\")" + std::string(1000, '{') + "\"")), "");
}

TEST(MachineJson, TakesPciAddressesAsPeopleWriteThem) {
  const Machine machine =
      from_json(R"({"tutti_topology": 1, "nodes": [{"node": "gpu0", "pci": "0F:00.0"}], "links": []})");
  EXPECT_EQ(machine.nodes.at(0).pci, "0000:0f:00.0");
}

TEST(Load, TellsFormsApartAndNamesWhatItKnows) {
  EXPECT_THAT(refusal("# a text"), HasSubstr("neither JSON nor XML"));
  EXPECT_THAT(refusal(""), HasSubstr("neither JSON nor XML"));
  EXPECT_EQ(refusal("\xef\xbb\xbf" + to_json(known("pcie-box"))), "") << "as some editors mark UTF-8";
  EXPECT_EQ(load("dgx-a100").count(NodeKind::gpu), 8U);
  EXPECT_THAT(test::thrown_by([] { load("dgx-z80"); }).text,
              HasSubstr("dgx-h100, dgx-a100, nvl72, pcie-box, uneven-box"));
  // The last of them no one can read, at its beginning.
  for (const char* file : {".", "/proc/self/mem"}) {
    const auto error = test::thrown_by([&] { load(file); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_THAT(error.text, HasSubstr(std::string("topology \"") + file + "\": cannot be read: "));
  }
}

}  // namespace
}  // namespace tutti::topology
