// From the calls of a group to kernels in streams.
#include <algorithm>
#include <bit>
#include <utility>

#include "communicator/check.hpp"
#include "nccl/comm.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

void Comm::check() {
  // A job holds it; its own state says how that goes.
  const std::unique_lock lock(use_, std::try_to_lock);
  if (lock.owns_lock() && gpu_) gpu_->check();
}

// Programs ask again and again.
ncclResult_t Comm::reported() {
  const std::scoped_lock lock(report_mutex_);
  if (reported_ != ncclSuccess) {
    remember(report_);
    return reported_;
  }
  reported_ = guarded("a call before", [&] {
    check();
    return ncclSuccess;
  });
  if (reported_ != ncclSuccess) report_ = last_error();
  return reported_;
}

void Comm::admit(const Queued& queued) {
  const std::scoped_lock lock(use_);
  require_ready();
  gpu_->group(queued.stream).call(queued.call);
}

void Comm::prepare(std::span<const Queued> calls) {
  const std::scoped_lock lock(use_);
  require_ready();
  const gpu::OnDevice here(*api_, device_);
  group_of(calls).prepare();
}

// The others wait for the first stream, or it for them.
void Comm::gather_streams(std::span<const Queued> calls, bool before) {
  const gpu::Stream first = calls.front().stream;
  std::vector<gpu::Stream> others;
  for (const Queued& queued : calls)
    if (queued.stream != first && std::ranges::find(others, queued.stream) == others.end())
      others.push_back(queued.stream);
  if (others.empty()) return;
  if (!before) api_->record(between_streams_.get(), first);
  for (const gpu::Stream other : others) {
    if (before) api_->record(between_streams_.get(), other);
    api_->wait_event(before ? first : other, between_streams_.get());
  }
}

// For the input of a call whose factor lies on the device, `place` among those of its group.
std::byte* Comm::room_for_copy(const Call& call, std::size_t place) {
  const std::size_t bytes = tutti::check(call, rank_, size_).in_bytes;
  if (scaled_.size() <= place) scaled_.resize(place + 1), scaled_bytes_.resize(place + 1);
  if (scaled_bytes_[place] < bytes) {
    const std::size_t room = std::bit_ceil(bytes);  // all that are outgrown are together no more than this
    auto longer = gpu::allocate(api_, room);
    if (scaled_[place]) outgrown_.push_back(std::move(scaled_[place]));
    scaled_[place] = std::move(longer);
    scaled_bytes_[place] = room;
  }
  return scaled_[place].get();
}

GpuGroup Comm::group_of(std::span<const Queued> calls) {
  auto group = gpu_->group(calls.front().stream);
  std::size_t copies = 0;
  for (const Queued& queued : calls) {
    Call call = queued.call;
    if (queued.factor_at != nullptr) call.in = room_for_copy(call, copies++);
    group.call(call);
  }
  return group;
}

void Comm::copy_inputs(std::span<const Queued> calls, gpu::Stream stream) {
  std::size_t copies = 0;
  for (const Queued& queued : calls) {
    if (queued.factor_at == nullptr) continue;
    gpu::device::Scale scale;
    scale.from = static_cast<const std::byte*>(queued.call.in);
    scale.to = scaled_[copies++].get();
    scale.bytes = tutti::check(queued.call, rank_, size_).in_bytes;
    scale.factor_at = queued.factor_at;
    scale.type = queued.call.type;
    if (scale.bytes != 0) api_->launch_scale(scale, stream);
  }
}

void Comm::run(std::span<const Queued> calls) {
  const std::scoped_lock lock(use_);
  require_ready();
  if (revoked()) throw Failure(ncclInvalidUsage, "the communicator was revoked");
  const gpu::Stream stream = calls.front().stream;
  if (calls.size() == 1 && calls.front().factor_at == nullptr)
    return gpu_->on(stream).call(calls.front().call);
  const gpu::OnDevice here(*api_, device_);
  const bool scales = std::ranges::any_of(calls, [](const auto& c) { return c.factor_at != nullptr; });
  auto as_given = gpu_->group(stream);
  if (scales)  // what is refused is refused before a kernel reads what it was given
    for (const Queued& queued : calls) as_given.call(queued.call);
  auto group = group_of(calls);
  gather_streams(calls, true);
  const bool captured = api_->is_capturing(stream);
  if (scales && copied_ && !captured) api_->wait_event(stream, copies_read_.get());
  copy_inputs(calls, stream);
  const auto copies_were_enqueued = [&] {
    if (!scales || captured) return;
    api_->record(copies_read_.get(), stream);
    copied_ = true;
  };
  try {
    group.run();
  } catch (...) {
    copies_were_enqueued();
    throw;
  }
  copies_were_enqueued();
  gather_streams(calls, false);
}

}  // namespace tutti::nccl
