/// \file
/// A launch on host threads: every thread of every block is one, so that they run side by side as on a GPU
/// and ThreadSanitizer sees what they do.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/device/executor.hpp"

namespace tutti::test {

/// What the threads of a block share.
class HostBlockState {
 public:
  explicit HostBlockState(int threads) : barrier_(threads), threads_(threads) {}
  [[nodiscard]] int threads() const { return threads_; }
  void wait() { barrier_.arrive_and_wait(); }
  std::atomic<bool>& verdict(unsigned phase) { return verdicts_.at(phase % 3); }
  gpu::device::Shared shared;

 private:
  std::barrier<> barrier_;
  int threads_;
  std::array<std::atomic<bool>, 3> verdicts_{};
};

/// One thread's view of its block.
class HostBlock {
 public:
  HostBlock(HostBlockState& state, int thread) : state_(state), thread_(thread) {}
  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int threads() const { return state_.threads(); }
  void barrier() const { state_.wait(); }
  [[nodiscard]] bool any(bool mine) const {
    // The next one's verdict was last read before the barrier that this thread has just left.
    state_.verdict(phase_ + 1) = false;
    if (mine) state_.verdict(phase_) = true;
    state_.wait();
    return state_.verdict(phase_++);
  }

 private:
  HostBlockState& state_;
  int thread_;
  mutable unsigned phase_ = 0;
};

/// Starts all threads of a launch. They refer to nothing of the caller's.
inline void start_launch(std::vector<std::thread>& threads, const gpu::device::Launch& launch,
                         int threads_a_block) {
  for (int lane = 0; lane < static_cast<int>(launch.program->lanes); ++lane)
    for (int slice = 0; slice < static_cast<int>(launch.program->slices); ++slice) {
      auto state = std::make_shared<HostBlockState>(threads_a_block);
      for (int t = 0; t < threads_a_block; ++t)
        threads.emplace_back([=] {
          const HostBlock block(*state, t);
          gpu::device::with_format(launch.type, [&]<class Format>() {
            gpu::device::with_operation(launch.op, [&]<class Op>() {
              gpu::device::Executor<Format, Op, HostBlock>(block, state->shared, launch, lane, slice).run();
            });
          });
        });
    }
}

}  // namespace tutti::test
