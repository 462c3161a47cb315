/// \file
/// Memory and events that are given back.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "gpu/api.hpp"

namespace tutti::gpu {

namespace detail {
struct Free {
  std::shared_ptr<Api> api;
  void operator()(std::byte* memory) const noexcept { api->free(memory); }
};
struct FreePinned {
  std::shared_ptr<Api> api;
  void operator()(std::byte* memory) const noexcept { api->free_pinned(memory); }
};
struct DestroyEvent {
  std::shared_ptr<Api> api;
  void operator()(Event event) const noexcept { api->destroy_event(event); }
};
struct Close {
  std::shared_ptr<Api> api;
  void operator()(std::byte* memory) const noexcept { api->close(memory); }
};
}  // namespace detail

using DeviceMemory = std::unique_ptr<std::byte, detail::Free>;
using PinnedMemory = std::unique_ptr<std::byte, detail::FreePinned>;
/// Memory of another process.
using OpenMemory = std::unique_ptr<std::byte, detail::Close>;

inline DeviceMemory allocate(const std::shared_ptr<Api>& api, std::size_t bytes) {
  return {api->allocate(bytes), detail::Free{api}};
}
inline PinnedMemory allocate_pinned(const std::shared_ptr<Api>& api, std::size_t bytes) {
  return {api->allocate_pinned(bytes), detail::FreePinned{api}};
}

using OwnEvent = std::unique_ptr<void, detail::DestroyEvent>;
inline OwnEvent make_event(const std::shared_ptr<Api>& api) {
  return {api->create_event(), detail::DestroyEvent{api}};
}

/// For a short while.
class TemporaryStream {
 public:
  explicit TemporaryStream(Api& api) : api_(api), stream_(api.create_stream()) {}
  ~TemporaryStream() { api_.destroy_stream(stream_); }
  TemporaryStream(const TemporaryStream&) = delete;
  TemporaryStream& operator=(const TemporaryStream&) = delete;
  [[nodiscard]] Stream get() const { return stream_; }

 private:
  Api& api_;
  Stream stream_;
};

/// While it lives, `device` is the thread's current one.
class OnDevice {
 public:
  OnDevice(Api& api, int device) : api_(api), before_(api.current_device()), device_(device) {
    if (before_ != device_) api_.set_device(device_);
  }
  ~OnDevice() {
    if (before_ == device_) return;
    try {
      api_.set_device(before_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): it was the current device before
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Api& api_;
  int before_, device_;
};

}  // namespace tutti::gpu
