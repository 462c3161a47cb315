/// \file
/// Sleeping until a completion queue has something.
#pragma once

#include "transport/verbs/status.hpp"
#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

/// The event channel of one completion queue. A completion makes `fd` readable only where the queue was armed
/// before; so whoever wants to sleep arms, takes what has come meanwhile, and sleeps when that was nothing.
class CompletionEvents {
 public:
  /// Throws Error(system).
  CompletionEvents(Verbs& verbs, ibv_context* context, const Place& place);
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// Completions were taken from the queue.
  void taken() { fired_ = true; }
  /// A system call, but not where an earlier one still holds.
  void arm(ibv_cq* queue);
  /// `fd` was readable.
  void clear(ibv_cq* queue);

 private:
  Verbs& verbs_;
  EventChannel channel_;
  bool armed_ = false;
  bool fired_ = false;  ///< completions came since
};

}  // namespace tutti::transport::verbs
