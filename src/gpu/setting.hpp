/// \file
/// What the GPU side takes from its communicator.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <tutti/gpu.hpp>

#include "transport/transport.hpp"
#include "tuning/choices.hpp"

namespace tutti::gpu {

/// FIFOs between the processors of the ranks, which nobody else uses.
class Network {
 public:
  Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  virtual ~Network() = default;
  virtual transport::Transport& to(Rank peer) = 0;
};

struct Setting {
  transport::Group group;  ///< `all_gather` works for as long as the communicator lives
  GpuOptions options;
  std::string algorithm;  ///< forced, or empty
  bool rank_order = false;
  int node_size = 0;
  std::shared_ptr<const tuning::Choices> choices;  ///< for CPU buffers, until GPUs are measured
  /// Of a kernel's waits.
  [[nodiscard]] std::chrono::milliseconds timeout() const {
    return options.timeout.count() > 0 ? options.timeout : group.timeout;
  }
  /// Throws when the communicator cannot be used any more. On the caller's thread.
  std::function<void()> ensure_usable;
  /// Returns when all ranks have called it. Throws when not all come, at once where one makes another call
  /// than the one that this is a step of.
  std::function<void(Within)> meet;
  std::function<bool(Rank)> same_host;
  /// Collective.
  std::function<std::unique_ptr<Network>()> make_network;
  /// Why kernels that run must stop: an abort, a failure or a death. From any thread.
  std::function<std::optional<Error>()> interrupted;
  /// What a lost connection comes from: it may be the death of a third rank. May wait for the news for a
  /// moment. From any thread.
  std::function<Error(const Error&)> explain_loss;
  /// The exception that is being handled ends the communicator, on all ranks: what to throw for it. On the
  /// caller's thread.
  std::function<std::exception_ptr()> fail;
  /// Tells the others that this rank failed. From any thread.
  std::function<void(const Error&)> announce;
};

}  // namespace tutti::gpu
