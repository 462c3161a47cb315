// Files of real machines, where a directory of them is named by TUTTI_TEST_TOPOLOGIES: every one loads, and
// holds what a look at its text finds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "samples.hpp"
#include "simulation/candidates.hpp"
#include "simulation/world_network.hpp"
#include "topology/affinity.hpp"
#include "topology/nccl.hpp"
#include "topology/rings.hpp"
#include "topology/world.hpp"

namespace tutti::topology {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::size_t count(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

/// The sum of the attribute "count" of all such rows; those that lead from a GPU to itself left out.
int links_told(const std::string& text, const std::string& row) {
  int sum = 0;
  const std::regex expression("<pci busid=\"([^\"]*)\"|<" + row + " target=\"([^\"]*)\" count=\"([0-9]+)\"");
  std::string gpu;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    if ((*at)[1].matched) gpu = (*at)[1];
    if ((*at)[2].matched && (*at)[2] != gpu) sum += std::stoi((*at)[3]);
  }
  return sum;
}

/// As many ends of links as the GPUs tell: those between two GPUs have two.
int ends_of_links(const Machine& machine, LinkKind kind) {
  int sum = 0;
  for (const Link& link : machine.links)
    if (link.kind == kind)
      sum +=
          link.count *
          (machine.node(link.a).kind == NodeKind::gpu && machine.node(link.b).kind == NodeKind::gpu ? 2 : 1);
  return sum;
}

void expect_nccl(const Machine& machine, const std::string& text) {
  const std::size_t gpus = count(text, " class=\"0x(0302|0380|1200)");
  EXPECT_EQ(machine.count(NodeKind::gpu), gpus);
  const std::size_t nets = count(text, "<net ");
  EXPECT_EQ(machine.count(NodeKind::port), nets > 0 ? nets : count(text, " class=\"0x02"));
  EXPECT_EQ(ends_of_links(machine, LinkKind::nvlink), links_told(text, "nvlink"));
  EXPECT_EQ(ends_of_links(machine, LinkKind::xgmi), links_told(text, "xgmi"));
  const Machine back = from_text(to_nccl_xml(machine), machine.name);
  EXPECT_EQ(back.count(NodeKind::gpu), machine.count(NodeKind::gpu));
  EXPECT_EQ(ends_of_links(back, LinkKind::nvlink), ends_of_links(machine, LinkKind::nvlink));
}

void expect_hwloc(const Machine& machine, const std::string& text) {
  EXPECT_EQ(machine.count(NodeKind::gpu), count(text, "type=\"PCIDev\"[^>]*pci_type=\"0302"));
  EXPECT_LE(machine.count(NodeKind::cpu), count(text, "object type=\"NUMANode\"")) << "domains, and memory";
  if (text.find("NVLinkBandwidth") != std::string::npos) {
    // Every GPU tells its links in a row of the matrix, and every switch in one of its own.
    const auto matrix = text.substr(text.find("NVLinkBandwidth"));
    EXPECT_EQ(ends_of_links(machine, LinkKind::nvlink), static_cast<int>(count(matrix, "\\b25000\\b")) / 2);
  }
}

/// Ports that speak RDMA, where there are any.
std::set<NodeId> wanted_ports(const Machine& machine) {
  const auto all = machine.all(NodeKind::port);
  std::set<NodeId> rdma;
  for (const NodeId port : all)
    if (machine.node(port).rdma) rdma.insert(port);
  return rdma.empty() ? std::set(all.begin(), all.end()) : rdma;
}

/// Between two such machines, every GPU sends, and through every port that is some GPU's first one.
void expect_traffic(const Machine& machine) {
  const World world = uniform_world(machine, 2);
  const auto network = simulation::network_of(world);
  const auto result =
      simulation::rank_candidates(network, {.bytes = 8 << 20, .algorithm = "hierarchical", .piece = 64 << 10})
          .candidates.at(0)
          .result;
  for (const simulation::RankCounts& rank : result.ranks) EXPECT_GT(rank.bytes_sent, 0U);
  std::set<std::string> ports, crossed;
  for (const Seat& seat : world.seats)
    if (seat.host == 0) ports.insert(name(machine.node(seat.port)));
  for (const auto& link : result.links) {
    const std::string text = network.link_name(link.link);
    if (text.starts_with("host 0 ")) crossed.insert(text.substr(text.rfind(' ') + 1));
  }
  for (const std::string& port : ports) EXPECT_TRUE(crossed.contains(port)) << port;
}

TEST(Files, LoadAsTheyAre) {
  const char* directory = std::getenv("TUTTI_TEST_TOPOLOGIES");
  if (directory == nullptr)
    GTEST_SKIP() << "TUTTI_TEST_TOPOLOGIES names no directory with files of real machines";
#if !TUTTI_HAVE_EXPAT
  GTEST_SKIP() << "this build reads no XML: it is without expat";
#endif
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path().string());
    ++files;
    const std::string text = contents(entry.path());
    const Machine machine = load(entry.path().string());
    if (text.find("<topology") != std::string::npos)
      expect_hwloc(machine, text);
    else
      expect_nccl(machine, text);
    const auto gpus = machine.all(NodeKind::gpu);
    if (machine.count(NodeKind::port) > 0 && !gpus.empty()) {
      std::set<NodeId> used;
      for (const auto& ports : ports_of(machine, gpus)) {
        EXPECT_FALSE(ports.empty());
        used.insert(ports.begin(), ports.end());
      }
      EXPECT_EQ(used, wanted_ports(machine));
      expect_traffic(machine);
    }
    if (gpus.size() > 1) {
      const auto all = rings(machine);
      EXPECT_GT(ring_bandwidth(machine, all), 0);
      for (const Ring& ring : all) EXPECT_EQ(std::set(ring.begin(), ring.end()).size(), gpus.size());
    }
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace tutti::topology
