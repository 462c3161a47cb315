/// \file
/// What a thread collects between ncclGroupStart and ncclGroupEnd: calls of several communicators, which are
/// enqueued together, and jobs in which ranks wait for each other, which run side by side.
#pragma once

#include <functional>
#include <memory>

#include "nccl/comm.hpp"

namespace tutti::nccl {

/// The making of a communicator or a window, or a rank's part in that.
struct Job {
  std::shared_ptr<Comm> comm;  ///< whose state says how it goes
  std::function<void(Turn&)> work;
  ncclComm_t* handle = nullptr;  ///< set to null, and forgotten, when a blocking job fails, or cannot begin
  const char* function = "";
  std::shared_ptr<Comm> on = comm;  ///< whose turn it waits for; blocking: it is waited for
  std::function<void()> undo{};     ///< likewise, of a window; never while the job may be under way
};

/// Outside of groups: does it now.
ncclResult_t submit(Job job);
ncclResult_t submit(Queued call, const std::shared_ptr<Comm>& comm);
/// A call was refused: a group that it belongs to will do nothing, and end with `result`.
ncclResult_t refused(ncclResult_t result) noexcept;

void begin_group() noexcept;
ncclResult_t end_group();

}  // namespace tutti::nccl
