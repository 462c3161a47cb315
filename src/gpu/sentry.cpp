#include "gpu/sentry.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>

#include "base/quiet_thread.hpp"
#include "bootstrap/frame.hpp"
#include "gpu/device/arena.hpp"

namespace tutti::gpu {

namespace {

// An abort must end a kernel within a second.
constexpr auto interval = std::chrono::milliseconds(100);

const char* name(device::Awaited awaited) {
  switch (awaited) {
    case device::Awaited::message:
      return "a message from";
    case device::Awaited::room:
      return "room for a message to";
    case device::Awaited::buffers:
      return "the buffers of";
  }
  return "";
}

}  // namespace

Sentry::Sentry(const Setting& setting, device::Control& control)
    : setting_(setting), control_(control), thread_(quiet_thread([this] { watch(); })) {}

Sentry::~Sentry() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_->join();
}

std::uint64_t Sentry::announce_launch(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  ++launched_;
  launches_.at(launched_ % launches_.size()) = {launched_, what};
  return launched_;
}

void Sentry::check() {
  look();
  const std::scoped_lock lock(mutex_);
  if (failure_) throw Error(*failure_);
  if (stopped_because_) throw Error(*stopped_because_);  // a kernel that waits for nobody reports nothing
}

void Sentry::fail(const Error& error) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    failure_.emplace(error);
    told_ = true;
  }
  stop(error);
  setting_.announce(error);
}

void Sentry::stop(const Error& why) {
  const std::scoped_lock lock(mutex_);
  if (!stopped_because_) stopped_because_.emplace(why);
  device::store_release_system(&control_.abort, 1U);
}

void Sentry::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return over_; })) {
    lock.unlock();
    try {
      if (const auto why = setting_.interrupted()) stop(*why);
      look();
    } catch (const std::exception&) {
      // Out of memory, of which nobody can be told. There may be some at the next look.
    }
    lock.lock();
  }
}

void Sentry::look() {
  // The kernel's release of the cause comes after all else that it reports.
  if (std::atomic_ref(control_.report.cause).load(std::memory_order_acquire) == 0) return;
  std::optional<Error> to_tell;
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_.emplace(error_of(control_.report));
    // Who was stopped had it from somebody who knows.
    const bool was_stopped = control_.report.cause == static_cast<std::uint32_t>(device::Cause::aborted);
    if (!told_ && !was_stopped) to_tell = failure_;
    told_ = true;
  }
  if (to_tell) setting_.announce(*to_tell);
}

Error Sentry::error_of(const device::Report& report) {
  const Launched& last = launches_.at(report.sequence % launches_.size());
  const std::string title = fmt::format(
      "{} #{} on a GPU, rank {}", last.number == report.sequence ? last.what : "an earlier or captured call",
      report.sequence, setting_.group.rank);
  const auto awaited = static_cast<device::Awaited>(report.awaited);
  switch (static_cast<device::Cause>(report.cause)) {
    case device::Cause::mismatch:
      return {
          ErrorCode::mismatch,
          fmt::format(
              "{}: rank {} made another call (tag {:#x} instead of {:#x}); compare operations, counts, types "
              "and roots of all ranks",
              title, report.peer, report.found, report.expected),
          {report.peer}};
    case device::Cause::bounds:
      return {ErrorCode::invalid_argument,
              fmt::format("{}: the counts or displacements for rank {} reach beyond the buffers{}", title,
                          report.peer,
                          report.peer == setting_.group.rank
                              ? ", or what this rank sends itself differs from what it receives"
                              : ""),
              {setting_.group.rank}};
    case device::Cause::aborted:
      return {stopped_because_->code(),
              fmt::format("{} ended while it waited for {} rank {}: {}", title, name(awaited), report.peer,
                          bootstrap::to_fault(*stopped_because_).text),
              stopped_because_->ranks()};
    default:
      return {
          ErrorCode::timeout,
          fmt::format(
              "{} waited {} ms for {} rank {}; has that rank made the call, and do the kernels of all ranks "
              "fit on the GPU side by side?",
              title, setting_.timeout().count(), name(awaited), report.peer),
          {report.peer}};
  }
}

}  // namespace tutti::gpu
