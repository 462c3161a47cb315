/// \file
/// A call's program on the device: made once, kept with the communicator.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/call.hpp>
#include <tutti/gpu.hpp>

#include "communicator/plan.hpp"
#include "communicator/select.hpp"
#include "gpu/connection.hpp"
#include "gpu/timeline.hpp"

namespace tutti::gpu {

struct Plan {
  PlanKey key;
  std::vector<std::size_t> counts;  ///< of v-forms and groups of messages
  std::string title;                ///< as errors name the call
  std::byte* program = nullptr;     ///< in memory of the planner's
  std::size_t program_bytes = 0;    ///< of that
  std::size_t flat_bytes = 0;       ///< of the program in it
  int lanes = 0, slices = 1;
  DataType type = DataType::uint8;  ///< of the program, as `op`
  ReduceOp op = ReduceOp::sum;
  std::size_t scratch_bytes = 0;  ///< of all slices
  std::uint32_t tag = 0;          ///< equal on ranks that make the same call by the same algorithm
  /// Reads a copy of the input: in place by a schedule that is not, or multiplied by the call's factor.
  bool copies_input = false;
  bool reachable = false;  ///< made for buffers that all ranks reach
  bool empty = false;      ///< nothing to move
  std::string description;
  std::uint64_t last_launch = 0;  ///< number of the last launch that ran it, or before it was prepared
  bool captured = false;          ///< a graph may refer to it
};

class Planner {
 public:
  /// Of those that were not captured. More are kept only while kernels run them.
  static constexpr std::size_t most_plans = 256;
  Planner(std::shared_ptr<Api> api, const Setting& setting, const Connection& connection);
  /// Drops plans that were not used for longest, if there are too many; never captured ones. Before plans are
  /// asked for: references to them hold until then.
  void trim(Timeline& timeline);
  /// The plan of a checked collective. `reachable`: all ranks reach the buffers of all. Throws
  /// Error(invalid_argument, unsupported).
  Plan& collective(const Call& call, const Sizes& sizes, bool reachable);
  /// That of an all_to_all_v whose counts are on the device.
  Plan& counted_exchange(DataType type);
  /// The plan of sends and receives that run side by side. Buffer i of the launch is that of call i; a
  /// message to oneself takes the buffers of a send and its receive.
  Plan& messages(std::span<const Call> calls);
  /// The plan of an all_reduce with norm.
  Plan& norm(const AllReduceRmsNorm& arguments);

 private:
  [[nodiscard]] const Algorithm& choose(const Circumstances& call, const PlanKey& key, const Sizes& sizes,
                                        bool reachable) const;
  std::unique_ptr<Plan> make(const Call& call, const Sizes& sizes, const PlanKey& key, bool reachable);
  void upload(Plan& plan, const std::vector<std::byte>& flat);
  Plan* find(const PlanKey& key, const std::vector<std::size_t>& counts, bool reachable = false) const;
  std::byte* room_for(std::size_t bytes);
  [[nodiscard]] int message_slices() const;

  std::shared_ptr<Api> api_;
  const Setting& setting_;
  const Connection& connection_;
  std::vector<std::unique_ptr<Plan>> plans_;
  /// Programs are in these. A block is allocated before calls need it, since that may wait for the device, on
  /// which other ranks' kernels may wait for this rank; none is freed before the end.
  std::vector<DeviceMemory> blocks_;
  std::size_t room_ = 0;                          ///< bytes at the end of the last block
  std::multimap<std::size_t, std::byte*> spare_;  ///< of programs that were dropped, by size
};

}  // namespace tutti::gpu
