/// \file
/// Ranks on the nodes of the lab (scripts/rdma-lab), and its faults and counters. A node is a process-id
/// namespace, by which tutti tells hosts apart, and the devices rx<node>_<rail>.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace tutti::test {

/// This is not the lab, or it has fewer nodes or rails, or other devices: why a test is skipped. Empty: all
/// is there. `devices`: rx, siw.
std::string lab_lacks(int nodes, int rails, const std::string& devices = "rx");

struct Job {
  int ranks = 8;
  int nodes = 4;  ///< ranks are spread over them in blocks, as launchers do
  int rails = 2;
  std::string devices = "rx";  ///< what their names begin with
  Options options;
  std::map<std::string, std::string> variables{};  ///< of every rank, as TUTTI_VERBS_TIMEOUT
  /// Called in a rank's process before it joins.
  std::function<void(Rank)> prepare{};
  /// Called when it cannot join; without it that is a failure.
  std::function<void(Rank, const Error&)> join_fails{};
  [[nodiscard]] int node_of(Rank rank) const { return rank * nodes / ranks; }
};
/// Small messages, no patience with a rank that waits for nothing: a minute.
Job job(int ranks, int nodes, int rails);

/// One process a rank. Their exit codes: 0, 1 when an expectation failed (which was printed), minus the
/// signal.
std::vector<int> run_on_nodes(const Job& job, const std::function<void(Communicator&)>& body);
/// All ranks end well.
void expect_well(const Job& job, const std::function<void(Communicator&)>& body);

/// `lab-fault ARGUMENTS`, which must work.
void fault(const std::string& arguments);
/// What a program prints.
std::string output_of(const std::string& command);
/// A hardware counter of one device; 0 where it is not counted. Summed over the devices of the first nodes.
long counter(int node, int rail, const std::string& name);
long counted(int nodes, int rails, const std::string& name);

/// How much a counter of the first nodes' devices has risen since this was made; printed at the end.
class Rise {
 public:
  Rise(int nodes, int rails, std::string name);
  ~Rise();
  Rise(const Rise&) = delete;
  Rise& operator=(const Rise&) = delete;
  [[nodiscard]] long so_far() const;

 private:
  int nodes_, rails_;
  std::string name_;
  long before_;
};

/// A fault of all devices, as `lab-fault NODE FAULT`, while it lives.
class FaultEverywhere {
 public:
  FaultEverywhere(int nodes, std::string terms);
  ~FaultEverywhere();
  FaultEverywhere(const FaultEverywhere&) = delete;
  FaultEverywhere& operator=(const FaultEverywhere&) = delete;

 private:
  int nodes_;
};

}  // namespace tutti::test
