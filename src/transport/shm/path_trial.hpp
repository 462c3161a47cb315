/// \file
/// Slots or each other's memory? And are results better stored past the caches? Which is faster depends on
/// the processor, on where the ranks run on it, and on the size, up to a factor of three either way, of ten
/// where many ranks share a processor. So it is measured on the calls themselves, and decided by all ranks
/// alike; of what a rank can decide by itself, sends say, by that one (message_fifo.hpp).
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace tutti {

/// How a call moves its data within a host. Results are the same, bit for bit.
enum class Path : std::uint8_t {
  slots,
  past_caches,  ///< by slots, and results are stored past the caches
  direct  ///< ranks tell each other where their buffers are, and read and write them, mapped or by attach
};
inline constexpr std::array all_paths{Path::slots, Path::past_caches, Path::direct};
constexpr std::size_t index_of(Path path) { return static_cast<std::size_t>(path); }

/// Some paths: all that a call can take.
class Paths {
 public:
  constexpr Paths() = default;
  constexpr Paths(std::initializer_list<Path> paths) {
    for (const Path path : paths) add(path);
  }
  constexpr void add(Path path) { bits_ |= 1U << static_cast<unsigned>(path); }
  [[nodiscard]] constexpr bool contains(Path path) const {
    return (bits_ >> static_cast<unsigned>(path) & 1U) != 0;
  }
  [[nodiscard]] constexpr std::uint32_t size() const {
    return static_cast<std::uint32_t>(std::popcount(bits_));
  }
  constexpr bool operator==(const Paths&) const = default;
  constexpr bool operator<(const Paths& other) const { return bits_ < other.bits_; }

 private:
  unsigned bits_ = 0;
};

/// Calls of one operation, type and range of sizes on one communicator. Every rank counts the same calls, so
/// all are at the same place: some calls by each path, the present one first, then one in which the ranks
/// exchange their times and decide. That is repeated, every time after several times as many calls: the first
/// calls of a program are not typical, and neighbours, and what the operating system runs where, change. A
/// path that was far from the fastest is left out of every other trial. Trials of short calls begin with one
/// by each path, after which the ranks leave out what is hopeless: it may take ten times as long.
class PathTrial {
 public:
  /// How many calls that takes.
  struct Cadence {
    std::uint32_t settling;  ///< by each path but the present one, not counted: caches hold what others left
    std::uint32_t counted;   ///< by each path
    /// By each path behind those: where ranks share a processor, who is done works on the next call, and
    /// takes that from the others of its processor. By another path it might only wait.
    std::uint32_t trailing;
    std::uint32_t first_gap, growth, longest_gap;  ///< before a trial; each is `growth` times the one before
    double gain;           ///< below this part of the present path's time another is taken: more may be noise
    bool by_last_to_come;  ///< the shortest time of any rank counts, not the mean
    bool glances;          ///< one call by each path goes before the others
    /// Where no path is hopeless, but for the call that decides.
    [[nodiscard]] constexpr std::uint32_t calls(std::uint32_t paths) const {
      return paths * (settling + counted + trailing) - settling + (glances ? paths : 0);
    }
  };
  static constexpr Cadence usual{1, 4, 1, 20, 4, 10'240, 0.95, false, true};
  /// Of calls that take milliseconds: there may not be many, and two tell as much as many short ones. But
  /// until the last cache holds what a path finds there each time, several pass; docs/experiments.md. The
  /// first gap is as long for the present path, half of which goes before buffers are put into huge pages.
  static constexpr Cadence of_long_calls{3, 2, 0, 8, 8, 256, 0.92, true, false};
  /// Times the fastest: a path that takes longer is far from it.
  static constexpr double far = 1.5;
  /// Times the present path's, and `cold` more: a first call that takes longer has more against it than cold
  /// caches.
  static constexpr double hopeless = 3;
  static constexpr double cold = 100'000;  ///< ns; a first attach took 20 to 50 us more than the next

  static constexpr std::size_t pairs = 2;
  /// Nanoseconds of a call by each path: means of two calls in a row, the same ones on all ranks that timed
  /// all of them. 0: they were not timed.
  using Times = std::array<std::array<std::uint32_t, pairs>, all_paths.size()>;
  /// The same over all ranks: of the pair that was shortest.
  using Costs = std::array<std::uint32_t, all_paths.size()>;

  struct Turn {
    Path path = Path::slots;
    bool timed = false;     ///< `record` is wanted, if the call blocks
    bool decides = false;   ///< the ranks exchange `times` in this call, and `decide` before its data move
    bool measured = false;  ///< `path` was decided, or is being tried; not presumed
  };

  explicit PathTrial(Paths paths, const Cadence& cadence = usual) : paths_(paths), cadence_(cadence) {}
  /// The next call's turn. Collective: every rank asks once a call. The first call's `presumed`, one of the
  /// paths, is taken until something is known: the call decides, which all ranks make, not who plans it
  /// first.
  Turn next(Path presumed);
  void record(Path path, std::chrono::nanoseconds time);
  /// This rank's, of the latest trial.
  [[nodiscard]] Times times() const;
  /// Takes in the times of all ranks, the same on each.
  void decide(std::span<const Times> of_ranks);
  [[nodiscard]] Path path(Path presumed) const { return started_ ? path_ : presumed; }
  [[nodiscard]] bool decided() const { return decided_by_[index_of(path_)] != 0; }
  /// What the last decision was made from, the mean over ranks; zeros before, and of what is not tried.
  [[nodiscard]] Costs decided_by() const { return decided_by_; }

 private:
  /// The `number`-th path of a trial: the present one, then the others.
  [[nodiscard]] Path path_at(std::uint32_t number) const;
  [[nodiscard]] Turn next_to_glance(std::uint32_t at);
  [[nodiscard]] Turn next_to_compare(std::uint32_t at);
  /// The calls from here on go before the next trial.
  void begin_gap();
  /// The mean over ranks that timed all that is tried, or the shortest time of any. Zeros: no rank did.
  [[nodiscard]] Costs costs(std::span<const Times> of_ranks) const;
  /// Of a call by `path`, as of the latest decision.
  [[nodiscard]] double time(Path path) const;
  void leave_out_hopeless();
  void take_fastest();
  Paths paths_;
  Paths tried_ = paths_;  ///< in the next trial
  Cadence cadence_;
  bool started_ = false;  ///< a call has asked
  Path path_ = Path::slots;
  std::uint32_t call_ = 0;  ///< since the last trial
  std::uint32_t gap_ = cadence_.first_gap;
  bool glanced_ = !cadence_.glances;  ///< one call by each path has gone before, or none is to
  bool decides_glance_ = false;       ///< the latest call that decides ended one
  std::array<std::vector<std::uint32_t>, all_paths.size()> samples_;
  Costs decided_by_{};
};

}  // namespace tutti
