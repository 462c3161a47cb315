/// \file
/// The state behind a Gpu: from a call to a launch, and what becomes of it.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/gpu.hpp>

#include "base/fork_guard.hpp"
#include "gpu/connection.hpp"
#include "gpu/network_lines.hpp"
#include "gpu/plan.hpp"
#include "gpu/proxy.hpp"
#include "gpu/regions.hpp"
#include "gpu/resources.hpp"
#include "gpu/sentry.hpp"
#include "gpu/setting.hpp"
#include "gpu/timeline.hpp"

namespace tutti::detail {

class GpuState {
 public:
  /// Refuses what no Gpu can be made of.
  static void check_setting(const gpu::Setting& setting);
  /// Of what `check_setting` admits on all ranks.
  GpuState(std::shared_ptr<gpu::Api> api, gpu::Setting setting);
  ~GpuState();
  GpuState(const GpuState&) = delete;
  GpuState& operator=(const GpuState&) = delete;

  /// What all ranks do: where this one has not the memory for its part, the others would wait for it.
  template <class Part>
  auto with_others(Part part) {
    try {
      return part();
    } catch (const std::bad_alloc&) {
      std::rethrow_exception(setting_.fail());
    }
  }

  [[nodiscard]] Rank rank() const { return setting_.group.rank; }
  [[nodiscard]] int size() const { return setting_.group.size; }
  /// Refuses what cannot be enqueued.
  Sizes admit(const Call& call, gpu::Stream stream);
  void enqueue(std::span<const Call> calls, gpu::Stream stream);
  /// What `enqueue` does before it launches anything.
  void make_ready(std::span<const Call> calls, gpu::Stream stream);
  void enqueue_counted(const Call& call, const DeviceBlocks& in, const DeviceBlocks& out, gpu::Stream stream);
  void all_reduce_rms_norm(const AllReduceRmsNorm& arguments, gpu::Stream stream);
  /// Collective; wait for what was enqueued.
  gpu::Regions::Allocated allocate(std::size_t bytes);
  gpu::Regions::Token register_memory(void* data, std::size_t bytes);
  void check();
  /// In a child made by fork: it is the parent's.
  [[nodiscard]] bool is_forked_copy() const { return generation_ != fork_generation(); }
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] std::string explain(const Call& call);

 private:
  void refuse_forked_copy() const;
  /// While it lives, the device is the thread's current one. Throws Error(forked) in a child made by fork.
  [[nodiscard]] gpu::OnDevice on_device() const;
  void start_proxy();
  void await_proxies() const;
  void meet();
  void abandon() noexcept;
  [[nodiscard]] bool reachable(const Call& call, const Sizes& sizes) const;
  void check_registrable(const void* data, std::size_t bytes);
  void check_stream(const Call& call, gpu::Stream stream);
  void check_pointer(const Call& call, const void* pointer, std::size_t bytes, const char* which);
  /// All that a launch needs: nothing is launched before all of a group is prepared.
  struct Prepared {
    gpu::Plan* plan;
    gpu::device::Launch launch;
    std::vector<gpu::device::Scale> copies;  ///< of parts of the input, before it
  };
  Prepared prepare(gpu::Plan& plan, const gpu::device::Launch& buffers);
  std::vector<Prepared> prepare_all(std::span<const Call> calls, gpu::Stream stream);
  Prepared prepare_collective(const Call& call, const Sizes& sizes);
  void copy_input(Prepared& prepared, const Call& call, const Sizes& sizes);
  Prepared prepare_messages(std::span<const Call> calls);
  /// After what was enqueued before, whatever its stream; in a capture, after what was captured in it.
  void launch(std::span<Prepared> all, gpu::Stream stream);
  void launch(Prepared& prepared, bool captured, gpu::Stream stream);

  /// Memory that grows; what captured graphs may refer to is kept.
  struct Growing {
    std::vector<gpu::DeviceMemory> blocks;
    std::size_t bytes = 0;
  };
  std::byte* at_least(Growing& memory, std::size_t bytes);

  std::shared_ptr<gpu::Api> api_;
  std::optional<gpu::OnDevice> while_it_ends_;  ///< in the destructor, until all that follows is gone
  gpu::Setting setting_;
  gpu::Connection connection_;
  gpu::Regions regions_;
  std::unique_ptr<gpu::Planner> planner_;
  std::unique_ptr<gpu::Sentry> sentry_;
  std::unique_ptr<gpu::NetworkLines> network_;  ///< where some rank needs one
  std::unique_ptr<gpu::Proxy> proxy_;           ///< where this rank does
  Growing scratch_, input_copy_;
  std::unique_ptr<gpu::Timeline> timeline_;
  std::uint64_t launched_ = 0;  ///< number of the last launch
  const std::uint64_t generation_ = fork_generation();
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti::detail
