#include "doctor/examine.hpp"

#include <exception>
#include <functional>

#include "doctor/gpu.hpp"
#include "doctor/memory.hpp"
#include "doctor/network.hpp"
#include "doctor/pcie.hpp"
#include "doctor/rdma.hpp"
#include "doctor/shared_memory.hpp"

namespace tutti::doctor {

Findings examine_machine(const Root& root, const RanksHere& ranks, const std::string& interface) {
  Findings all;
  const auto add = [&](const char* area, const std::function<Findings()>& look) {
    try {
      for (auto& finding : look()) all.push_back(std::move(finding));
    } catch (const std::exception& error) {
      all.push_back({.area = area,
                     .level = Level::warning,
                     .what = std::string("could not be examined: ") + error.what()});
    }
  };
  add("processors", [&] { return examine(read_processors(root, ranks)); });
  add("memory", [&] { return examine(read_memory(root)); });
  add("shared memory", [&] { return examine(read_shared_memory(root)); });
  add("network", [&] { return examine(read_network(root, interface)); });
  add("rdma", [&] { return examine(read_rdma(root)); });
  add("gpu", [&] { return examine(read_gpu(root)); });
  add("pcie", [&] { return examine(read_pcie(root)); });
  return all;
}

}  // namespace tutti::doctor
