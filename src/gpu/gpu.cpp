// OnStream, GpuGroup and Gpu, by the state behind a Gpu.
#include <tutti/gpu.hpp>

#include <memory>
#include <utility>

#include "gpu/state.hpp"

namespace tutti {

Rank OnStream::rank() const noexcept { return state_->rank(); }
int OnStream::size() const noexcept { return state_->size(); }
void OnStream::all_to_all_v(const void* in, const DeviceBlocks& in_blocks, void* out,
                            const DeviceBlocks& out_blocks, DataType type) {
  const Call call{.operation = Operation::all_to_all_v, .type = type, .in = in, .out = out};
  state_->with_others([&] { state_->enqueue_counted(call, in_blocks, out_blocks, stream_); });
}
void OnStream::submit(const Call& call) {
  state_->with_others([&] { state_->enqueue({&call, 1}, stream_); });
}
void OnStream::all_reduce_rms_norm(const AllReduceRmsNorm& arguments) {
  state_->with_others([&] { state_->all_reduce_rms_norm(arguments, stream_); });
}

Rank GpuGroup::rank() const noexcept { return state_->rank(); }
int GpuGroup::size() const noexcept { return state_->size(); }
void GpuGroup::submit(const Call& call) {
  state_->with_others([&] {
    state_->admit(call, stream_);
    calls_.add(call);
  });
}
void GpuGroup::prepare() {
  state_->with_others([&] { state_->make_ready(calls_.calls(), stream_); });
}
void GpuGroup::run() {
  const detail::CallList started = std::exchange(calls_, {});
  state_->with_others([&] { state_->enqueue(started.calls(), stream_); });
}

Gpu::Gpu() noexcept = default;
Gpu::Gpu(Gpu&&) noexcept = default;
Gpu& Gpu::operator=(Gpu&& other) noexcept {
  if (this != &other) {
    const Gpu ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
// A child made by fork has neither the device nor the threads, and cannot even destroy what those wait for.
Gpu::~Gpu() {
  if (state_ != nullptr && state_->is_forked_copy()) static_cast<void>(state_.release());
}
std::pair<std::shared_ptr<const void>, void*> Gpu::allocate_bytes(std::size_t bytes) {
  auto [token, data] = state_->with_others([&] { return state_->allocate(bytes); });
  return {std::move(token), data};
}
GpuRegistration Gpu::register_memory(void* data, std::size_t bytes) {
  return GpuRegistration(state_->with_others([&] { return state_->register_memory(data, bytes); }));
}
void Gpu::check() { state_->check(); }
std::string Gpu::explain() const { return state_->explain(); }
std::string Gpu::explain(const Call& call) { return state_->explain(call); }

}  // namespace tutti
