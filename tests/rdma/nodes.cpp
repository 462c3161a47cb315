#include "rdma/nodes.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "communicator/ranks.hpp"

namespace tutti::test {

namespace {

constexpr int most_ranks = 64;

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

std::string devices_of(const Job& job, int node) {
  std::string list;
  for (int rail = 0; rail < job.rails; ++rail)
    list += (rail == 0 ? "" : ",") + job.devices + std::to_string(node) + "_" + std::to_string(rail);
  return list;
}

int failures() {
  const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
  int count = 0;
  for (int part = 0; part < result->total_part_count(); ++part)
    count += result->GetTestPartResult(part).failed() ? 1 : 0;
  return count;
}

int run_rank(const Job& job, const UniqueId& id, Rank rank, const std::function<void(Communicator&)>& body) {
  const int before = failures();  // of the test's own process
  for (const auto& [name, value] : job.variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("TUTTI_VERBS_DEVICES", devices_of(job, job.node_of(rank)).c_str(), 1);
  try {
    if (job.prepare) job.prepare(rank);
    std::optional<Communicator> comm;
    try {
      comm.emplace(id, rank, job.ranks, job.options);
    } catch (const Error& error) {
      if (!job.join_fails) throw;
      job.join_fails(rank, error);
    }
    if (comm) body(*comm);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << ": " << error.what();
  }
  std::fflush(nullptr);
  return failures() > before ? 1 : 0;
}

}  // namespace

std::string lab_lacks(int nodes, int rails, const std::string& devices) {
  if (number_of("LAB_NODES") == 0) return "not in scripts/rdma-lab";
  if (number_of("LAB_NODES") < nodes || number_of("LAB_RAILS") < rails)
    return "needs " + std::to_string(nodes) + " nodes of " + std::to_string(rails) + " rails";
  if (!std::filesystem::exists("/sys/class/infiniband/" + devices + "0_0"))
    return "needs devices called " + devices;
  return "";
}

Job job(int ranks, int nodes, int rails) {
  Job made{.ranks = ranks, .nodes = nodes, .rails = rails, .options = {}};
  made.options.timeout = 60s;
  return made;
}

std::vector<int> run_on_nodes(const Job& job, const std::function<void(Communicator&)>& body) {
  const UniqueId id = bootstrap::reserve_id("lo");
  const Shared<std::array<int, most_ranks>> codes;
  std::fflush(nullptr);  // or every child would print what is still to be printed
  std::vector<Child> nodes;
  for (int node = 0; node < job.nodes; ++node)
    nodes.emplace_back([&, node] {
      if (::unshare(CLONE_NEWPID) != 0) throw std::system_error(errno, std::generic_category(), "unshare");
      // The first process of a namespace: the kernel ends the others when it ends, so it is not a rank.
      Child init([&] {
        std::vector<std::pair<Rank, Child>> ranks;
        for (Rank rank = 0; rank < job.ranks; ++rank)
          if (job.node_of(rank) == node)
            ranks.emplace_back(rank, Child([&, rank] { return run_rank(job, id, rank, body); }));
        for (auto& [rank, child] : ranks) codes->at(static_cast<std::size_t>(rank)) = child.wait();
        return 0;
      });
      return init.wait();
    });
  for (auto& node : nodes) EXPECT_EQ(node.wait(), 0);
  return {codes->begin(), codes->begin() + job.ranks};
}

void expect_well(const Job& job, const std::function<void(Communicator&)>& body) {
  EXPECT_EQ(run_on_nodes(job, body), std::vector<int>(static_cast<std::size_t>(job.ranks)));
}

void fault(const std::string& arguments) {
  // The arguments are constants of tests.
  if (std::system(("lab-fault " + arguments).c_str()) != 0)  // NOLINT(cert-env33-c)
    throw std::runtime_error("lab-fault " + arguments + " does not work");
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);  // NOLINT
  std::string text;
  std::array<char, 4096> chunk{};
  while (const auto got = std::fread(chunk.data(), 1, chunk.size(), pipe.get()))
    text.append(chunk.data(), got);
  return text;
}

long counter(int node, int rail, const std::string& name) {
  long value = 0;
  std::ifstream("/sys/class/infiniband/rx" + std::to_string(node) + "_" + std::to_string(rail) +
                "/ports/1/hw_counters/" + name) >>
      value;
  return value;
}

long counted(int nodes, int rails, const std::string& name) {
  long sum = 0;
  for (int node = 0; node < nodes; ++node)
    for (int rail = 0; rail < rails; ++rail) sum += counter(node, rail, name);
  return sum;
}

Rise::Rise(int nodes, int rails, std::string name)
    : nodes_(nodes), rails_(rails), name_(std::move(name)), before_(counted(nodes, rails, name_)) {}

Rise::~Rise() { fmt::print("{} rose by {}\n", name_, so_far()); }

long Rise::so_far() const { return counted(nodes_, rails_, name_) - before_; }

FaultEverywhere::FaultEverywhere(int nodes, std::string terms) : nodes_(nodes) {
  for (int node = 0; node < nodes; ++node) fault(std::to_string(node) + " " + terms);
}

FaultEverywhere::~FaultEverywhere() {
  for (int node = 0; node < nodes_; ++node) fault(std::to_string(node) + " none");
}

}  // namespace tutti::test
