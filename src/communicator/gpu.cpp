// What a Gpu takes from its communicator.
#include <tutti/gpu.hpp>

#include <utility>

#include "communicator/impl.hpp"
#include "gpu/state.hpp"
#include "transport/fail_together.hpp"

namespace tutti {

namespace {

using detail::Impl;

/// The transports of a communicator of its own: a thread of the GPU side uses them.
class GpuNetwork final : public gpu::Network {
 public:
  /// Collective. Who connects there gives up when `of` comes to its end, by an abort, say: nobody ends this
  /// one.
  explicit GpuNetwork(Impl& of) : impl_(of.split(0, of.group.rank, Within::gpu)) {
    impl_->check_parent = of.group.check_members;
  }
  transport::Transport& to(Rank peer) override { return impl_->routes->to(peer); }

 private:
  std::unique_ptr<Impl> impl_;
};

gpu::Setting setting_of(Impl& impl, const GpuOptions& options) {
  impl.ensure_usable();
  gpu::Setting setting;
  setting.group = impl.group;
  setting.options = options;
  setting.algorithm = impl.options.algorithm;
  setting.rank_order = impl.options.rank_order;
  setting.node_size = options.host_size > 0 ? options.host_size : impl.planner->setting().node_size;
  setting.choices = impl.planner->setting().choices;
  setting.group.all_gather = [&impl](std::span<const std::byte> mine) { return impl.exchange(mine); };
  setting.ensure_usable = [&impl] { impl.ensure_usable(); };
  setting.meet = [&impl](Within within) { impl.run({.operation = Operation::barrier, .within = within}); };
  setting.same_host = [&impl](Rank rank) { return impl.shm->reaches(rank); };
  setting.make_network = [&impl] { return std::make_unique<GpuNetwork>(impl); };
  setting.interrupted = [&impl]() -> std::optional<Error> {
    const bool unusable = impl.unusable.load(std::memory_order_acquire);
    if (unusable && impl.abort_requested.load(std::memory_order_acquire))
      return Error(ErrorCode::aborted, "this rank aborted: " + impl.abort_reason, {impl.group.rank});
    auto why = impl.heard(nullptr);
    if (unusable && !why)
      why.emplace(ErrorCode::aborted, "this rank has failed: " + impl.failed_text,
                  std::vector<Rank>{impl.group.rank});
    return why;
  };
  setting.explain_loss = [&impl](const Error& loss) { return impl.explain_loss(nullptr, loss); };
  setting.fail = [&impl] { return impl.fail(nullptr); };
  setting.announce = [&impl](const Error& error) {
    impl.watch->session().announce_failure(impl.group.communicator, error);
  };
  return setting;
}

std::unique_ptr<detail::GpuState> make_gpu_state(Impl& impl, const GpuOptions& options) {
  gpu::Setting setting = setting_of(impl, options);
  // What follows is sends and receives. Who calls something else learns of that here, not at its deadline.
  setting.meet(Within::gpu);
  std::shared_ptr<gpu::Api> api;
  transport::do_together(setting.group, [&] {
    detail::GpuState::check_setting(setting);
    api = gpu::api();
  });
  return std::make_unique<detail::GpuState>(std::move(api), std::move(setting));
}

}  // namespace

Gpu::Gpu(Communicator& communicator, const GpuOptions& options)
    : state_(communicator.impl_->with_others([&] { return make_gpu_state(*communicator.impl_, options); })) {}

}  // namespace tutti
