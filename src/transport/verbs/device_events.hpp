/// \file
/// What a device reports by itself.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

/// The asynchronous events of one opened device.
class DeviceEvents {
 public:
  struct Event {
    ibv_event_type type{};
    std::optional<std::uint32_t> queue_pair;  ///< the number of the one that it is about
  };
  /// Both must stay.
  DeviceEvents(Verbs& verbs, ibv_context* context);
  /// Readable when an event has come, and for good once the device is gone.
  [[nodiscard]] int fd() const { return context_->async_fd; }
  /// The next one that has come, if any; acknowledged. Where the device was taken away the last is
  /// DEVICE_FATAL, whether or not the kernel said so.
  std::optional<Event> take();
  /// The first fatal one that was taken and is of no single queue pair: nothing works any more.
  [[nodiscard]] std::optional<ibv_event_type> loss() const { return loss_; }

 private:
  Verbs& verbs_;
  ibv_context* context_;
  std::optional<ibv_event_type> loss_;
};

}  // namespace tutti::transport::verbs
