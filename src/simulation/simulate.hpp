/// \file
/// How long a schedule takes on a network, and what it moves: the schedule is lowered as for a real call
/// (src/execution/lower.hpp), and the programs run on a clock instead of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <tutti/schedule.hpp>

#include "execution/lower.hpp"
#include "simulation/network.hpp"
#include "simulation/quotient.hpp"

namespace tutti::simulation {

/// What is called.
struct Workload {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;  ///< nccl-tests' size: of the larger of input and output
  DataType type = DataType::float32;
  std::size_t piece = std::size_t{1} << 20;        ///< wanted bytes of a chunk a message
  std::size_t max_message = execution::unlimited;  ///< bytes
  bool views = false;  ///< the schedule allows that, where a way has views, what is sent is read there
  int calls = 1;       ///< in a row, without a barrier, as benchmarks do
  /// A buffer of many pieces may be told from some of them (rounds.hpp): of one call, and not exact.
  bool extrapolates = false;
  std::uint64_t extrapolates_from = 0;  ///< but only where the ranks have so many steps in all
};

/// Beyond which a simulation is given up.
struct Limits {
  double seconds = std::numeric_limits<double>::infinity();  ///< of the clock
  /// Four times the steps of the simulation, and the flows that are looked at: the same on every machine.
  std::uint64_t effort = std::numeric_limits<std::uint64_t>::max();
};

/// What one rank does.
struct RankCounts {
  std::uint64_t messages_sent = 0;  ///< counted as Stats does
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_copied = 0;  ///< through memory of the transports
  std::uint64_t bytes_folded = 0;  ///< of every step's sources after the first
  int lanes = 0;
  std::uint64_t buffer_bytes = 0;  ///< as many of the largest message as each FIFO to this rank holds
  std::uint64_t scratch_bytes = 0;
  int queue_pairs = 0;
  double busy = 0;  ///< s that it works
  double done = 0;  ///< s when its last lane is through
};

/// What crosses one link, or each of several that are alike.
struct LinkCounts {
  int link = 0;   ///< one of them: index in Network::bandwidth
  int alike = 1;  ///< how many
  double bytes = 0;
  double busy = 0;  ///< s that something crosses it
};

/// What the time until some step's end was spent on, back along whatever that step and those before it waited
/// for last: the critical path. Seconds that add up to the clock.
struct Spent {
  double latency = 0;      ///< alpha of messages, and of credits
  double links = 0;        ///< of messages on their route, and in line for it
  double messages = 0;     ///< overhead of senders and receivers
  double copies = 0;       ///< bytes written
  double folds = 0;        ///< bytes folded
  double steps = 0;        ///< what every step costs
  double calls = 0;        ///< what every call costs besides
  std::uint64_t hops = 0;  ///< messages and credits waited for, one after the other

  [[nodiscard]] double total() const { return latency + links + messages + copies + folds + steps + calls; }
  // Of seconds: what was spent later may be on a path of fewer hops.
  Spent& operator-=(const Spent& other);
  Spent& operator/=(int calls);
};

/// All of it that is seconds.
inline constexpr std::array spent_seconds = {&Spent::latency, &Spent::links, &Spent::messages, &Spent::copies,
                                             &Spent::folds,   &Spent::steps, &Spent::calls};

struct Result {
  /// False: given up at a limit, and `seconds` is what it takes at least; little else is set.
  bool finished = true;
  bool too_long = false;  ///< given up for Limits::effort, not for its time
  double seconds = 0;
  bool estimated = false;  ///< `seconds`, from some of the rounds: Workload::extrapolates
  Spent spent;             ///< of the step that ends last
  Spent steady;  ///< s a call, once calls follow each other: of the later half of `Workload::calls`; no hops
  std::vector<Rank> representatives;
  std::vector<int> members;       ///< ranks each stands for
  std::vector<int> by_rank;       ///< of every rank, which of those stands for it
  std::vector<RankCounts> ranks;  ///< of each representative
  std::vector<LinkCounts> links;  ///< those that anything crosses; the busiest first
  std::uint64_t messages = 0;     ///< of all ranks
  std::uint64_t events = 0;       ///< steps of the simulation
  std::uint64_t effort = 0;       ///< as Limits counts it
  std::size_t piece = 0;          ///< bytes of a chunk a message, as lowered
  std::size_t chunk = 0;          ///< bytes of the largest chunk of the caller's buffers
};

/// Sorts by the time that a link needs for what crosses it.
void busiest_first(const Network& network, std::vector<LinkCounts>& links);

/// Rank by rank: exact, but for Workload::extrapolates. Gives up at the limits: see Result::finished.
Result simulate(const Schedule& schedule, const Network& network, const Workload& workload,
                const Limits& limits = {});

/// By representatives; see quotient.hpp. Chunks of a buffer that the schedule divides are all taken as large
/// as the largest: the real ones are multiples of 64 bytes, or of an element where there are fewer for each,
/// and the last ones are smaller. All else is exact, but for Workload::extrapolates.
class Alike {
 public:
  /// `network` must outlive it, and have no multicasts: whether a message is one, only all ranks' steps say.
  /// Throws TooManyFifos.
  Alike(const Make& make, const Network& network,
        std::uint64_t most_fifos = std::numeric_limits<std::uint64_t>::max());
  Result run(const Workload& workload, const Limits& limits = {});

 private:
  const Network& network_;
  Quotient quotient_;
  Schedule schedule_;  ///< steps of the representatives
};

/// Queue pairs of every adapter: those of all ranks that use it. `by_rank`: as of Result, index in `counts`.
std::map<int, int> queue_pairs_by_adapter(const Network& network, const std::vector<int>& by_rank,
                                          const std::vector<RankCounts>& counts);

/// s of a call where `crowd` ranks share each processor: their work adds up, and whoever waits for a message
/// yields.
double crowded(const Result& result, double crowd);

/// The schedule's shape for `workload`; `even` rounds a divisible buffer up to equal chunks.
execution::Shape shape_of(const Schedule& schedule, const Workload& workload, bool even = false);

}  // namespace tutti::simulation
