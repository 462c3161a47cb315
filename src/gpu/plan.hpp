/// \file
/// A call's program on the device: made once, kept with the communicator.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/call.hpp>
#include <tutti/gpu.hpp>

#include "communicator/plan.hpp"
#include "gpu/connection.hpp"

namespace tutti::gpu {

struct Plan {
  PlanKey key;
  std::vector<std::size_t> counts;  ///< of v-forms and groups of messages
  DeviceMemory program;
  int lanes = 0, slices = 1;
  std::size_t scratch_bytes = 0;  ///< of all slices
  std::uint32_t tag = 0;          ///< equal on ranks that make the same call by the same algorithm
  /// Reads a copy of the input: in place by a schedule that is not, or multiplied by the call's factor.
  bool copies_input = false;
  bool empty = false;  ///< nothing to move
  std::string description;
};

class Planner {
 public:
  Planner(std::shared_ptr<Api> api, const Setting& setting, const Connection& connection)
      : api_(std::move(api)), setting_(setting), connection_(connection) {}
  /// The plan of a checked collective. Throws Error(invalid_argument, unsupported).
  const Plan& collective(const Call& call, const Sizes& sizes);
  /// The plan of sends and receives that run side by side. Buffer i of the launch is that of call i; a
  /// message to oneself takes the buffers of a send and its receive.
  const Plan& messages(std::span<const Call> calls);
  /// The plan of an all_reduce with norm.
  const Plan& norm(const AllReduceRmsNorm& arguments);

 private:
  std::unique_ptr<Plan> make(const Call& call, const Sizes& sizes, const PlanKey& key) const;
  void upload(Plan& plan, const std::vector<std::byte>& flat) const;
  const Plan* find(const PlanKey& key, const std::vector<std::size_t>& counts) const;

  std::shared_ptr<Api> api_;
  const Setting& setting_;
  const Connection& connection_;
  /// Never dropped: a captured graph may refer to any of them.
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace tutti::gpu
