/// \file
/// How to write what another rank reads: through the caches, or past them?
///
/// The place was last read, or written, by that rank. Where its processor has another last-level cache, a
/// store through the caches first takes the line back from there, which on some machines costs ten times what
/// memory does; where they share one, memory costs up to twice as much. Which of it holds changes whenever
/// ranks, or a hypervisor's processors, move, so writers measure it on what they write
/// (docs/experiments-caches.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

/// Of messages that are written in the same manner to where the same ranks read them. Some are timed, and a
/// few of these are written the other way.
class StoreTrial {
 public:
  /// Shorter messages are not timed.
  static constexpr std::size_t least = 1024;
  /// Percent of what one past the caches takes from which on a store through them is given up. Less may pay,
  /// too, but what passes the caches costs its reader more.
  static constexpr std::uint32_t too_long = 150;

  /// Before a message is written; may be repeated.
  void begin(std::size_t bytes);
  /// How to write that message.
  [[nodiscard]] bool past_caches() const { return past_ != probing_; }
  /// Once it is written.
  void end(std::size_t bytes);

  /// What the two above do but for looking at the clock: `plan` says whether the message is timed, `took`
  /// how many ticks it needed then.
  bool plan(std::size_t bytes);
  void took(std::size_t bytes, std::uint64_t ticks);

 private:
  /// Messages before one goes the other way: twice as many each time.
  static constexpr std::uint32_t first_gap = 8, longest_gap = 256;

  void decide();

  std::uint64_t started_ = 0;
  std::uint32_t messages_ = 0;  ///< since the last one that went the other way
  std::uint32_t gap_ = first_gap;
  bool past_ = false;
  bool probing_ = false, timed_ = false;  ///< the present message
  std::uint32_t seen_ = 0;                ///< costs of `past_`
  std::array<std::uint32_t, 4> recent_{};
  std::uint32_t other_ = 0;  ///< the latest cost of the other way; 0: none
};

/// The same for messages of all lengths: short ones cost more a byte, in another proportion, so they have a
/// trial of their own.
class StoreTrials {
 public:
  void begin(std::size_t bytes) {
    present_ = bytes >= long_from ? 1 : 0;
    trials_[present_].begin(bytes);
  }
  [[nodiscard]] bool past_caches() const { return trials_[present_].past_caches(); }
  void end(std::size_t bytes) { trials_[present_].end(bytes); }

 private:
  static constexpr std::size_t long_from = 8192;
  std::array<StoreTrial, 2> trials_;
  std::size_t present_ = 0;
};

}  // namespace tutti::kernels
