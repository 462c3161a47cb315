/// \file
/// RDMA devices: whether there are any, whether they can be opened, and what their ports are like.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

struct RdmaGid {
  int index = 0;
  std::string address{};
  std::string type{};  ///< "RoCE v2", "RoCE v1", ""
  bool link_local = false;
};

struct RdmaPort {
  std::string device{};
  int number = 1;
  std::string layer{};  ///< "InfiniBand", "RoCE", "iWARP"
  bool active = false;
  bool initializing = false;  ///< linked, and not active: InfiniBand's wait so for a subnet manager
  double gigabits = 0;
  int mtu = 0;
  int lid = 0;
  int numa_node = -1;
  std::string pci_path{};
  std::vector<RdmaGid> gids{};
};

struct RdmaFacts {
  bool built = false;                 ///< this program has tutti's RDMA transport
  std::vector<std::string> kernel{};  ///< devices in /sys/class/infiniband
  std::vector<std::string> nodes{};   ///< /dev/infiniband/uverbs*
  std::vector<std::string> closed{};  ///< those of them that this user may not open
  std::vector<RdmaPort> ports{};      ///< of all devices that could be opened
  std::string choice{};               ///< "rx0 port 1, GID 1 10.8.0.1: why"; empty: none
  std::string why_none{};             ///< why there is no choice
  bool refused = false;               ///< because TUTTI_VERBS_* ask for what cannot be: no communicator, then
  std::string why_no_iwarp{};         ///< why iWARP ports cannot be connected; empty: they can
};

RdmaFacts read_rdma(const Root& root);
Findings examine(const RdmaFacts& facts);

/// The part of `read_rdma` that needs libibverbs: built, ports but for `initializing`, choice, why_none,
/// refused, why_no_iwarp.
void read_devices(RdmaFacts& facts);

}  // namespace tutti::doctor
