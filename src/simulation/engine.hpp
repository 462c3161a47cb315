/// \file
/// The clock: programs of the simulated ranks, run in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "simulation/cast.hpp"
#include "simulation/flows.hpp"
#include "simulation/network.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

/// What takes at least `least` seconds, and nobody wants to know more: see Result::finished.
Result given_up(double least, std::uint64_t effort);

/// As the executor does: a lane's step begins when all its messages have arrived, all its sinks have room
/// and, where a rank is one thread, no other lane works. There, a lane goes on as long as it can, and then
/// that which could begin earliest.
class Engine {
 public:
  /// `calls`: how often every rank runs its program, one after the other, without waiting for the others.
  Engine(const Network& network, const Quotient& quotient, const std::vector<Actor>& actors, int calls = 1);
  /// Fills in all but `piece`. Throws Error(invalid_schedule) when the schedule is stuck. Gives up at the
  /// limits, or at once where some link has more to carry than it can until then: see Result::finished.
  Result run(const Limits& limits);
  /// s that the busiest link needs for all that will cross it.
  [[nodiscard]] double bound() const;

 private:
  struct LaneState {
    int actor = 0;
    const std::vector<execution::Part>* parts = nullptr;
    std::size_t part = 0, step = 0;
    std::uint64_t iteration = 0;
    bool waiting = true;  ///< not at work, and not in line for it
    Spent spent{};        ///< until the end of the step at work, or of the last one
  };
  struct Message {
    Spent spent;  ///< until it was sent
    double bytes = 0;
  };
  struct Fifo {
    int sender = -1, receiver = -1;  ///< lanes
    int way = -1;                    ///< in flows_; -1: it crosses no link
    const PathCost* cost = nullptr;
    double gap = 0;           ///< s, with queue pairs
    double narrowest = 0;     ///< bytes/s
    std::size_t largest = 0;  ///< bytes of a message
    int under_way = 0;        ///< messages reserved and not released
    int arrived = 0;
    std::size_t queued = 0;  ///< the last of `coming`: one that crosses links, and those behind it
    // No more than credits.
    std::vector<Message> coming{};
    std::vector<Spent> returning{};
  };
  struct ActorState {
    int first_lane = 0, lanes = 0;
    int unfinished = 0;  ///< lanes of the call under way
    int calls = 0;       ///< done
    int working = 0;
    std::deque<int> line;  ///< lanes that could begin, but for another lane at work
  };
  enum class What : std::uint8_t { called, finished, arrived, released };
  struct Event {
    double time;
    std::uint64_t order;  ///< of equal times, the first told comes first
    What what;
    int which;  ///< actor, lane or FIFO
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  // engine_setup.cpp
  void make_fifos();
  /// Finds the lanes at the ends of each FIFO. By actor: the peers that it reaches over the network.
  std::vector<std::vector<Rank>> find_ends();
  /// Counts queue pairs to those, and makes messages dearer where an adapter cannot cache that many.
  void add_queue_pairs(std::vector<std::vector<Rank>> peers);
  void make_misses_dear();

  void call(int actor, Spent cause);
  void enter(int actor);
  [[nodiscard]] const execution::Instruction* instruction(LaneState& lane) const;
  void step_over(LaneState& lane) const;
  [[nodiscard]] bool can_begin(const LaneState& lane, const execution::Instruction& step) const;
  /// `cause`: how the time went by until what may let the lane begin now.
  void consider(int lane, const Spent& cause);
  void begin(int lane, const execution::Instruction& step, const Spent& cause);
  void finish(int lane);
  void publish(int fifo, std::size_t bytes, const Spent& spent);
  void send_next(Fifo& fifo, int index);
  void sent(Fifo& fifo, int index);
  void arrive(Fifo& fifo);
  void release(Fifo& fifo);
  void tell(double time, What what, int which);
  [[nodiscard]] Spent work(const LaneState& lane, const execution::Instruction& step);
  /// A step takes about as long as four flows that are looked at.
  [[nodiscard]] std::uint64_t effort() const { return 4 * told_ + flows_.effort(); }
  Result result();

  const Network& network_;
  const Quotient& quotient_;
  const std::vector<Actor>& actors_;
  Flows flows_;
  std::vector<LaneState> lanes_;
  std::vector<ActorState> states_;
  std::vector<Fifo> fifos_;
  std::vector<int> fifo_of_way_;
  std::vector<RankCounts> counts_;
  std::vector<double> link_bytes_;  ///< by kind of link
  int calls_;
  /// Of the step that ended last, of every call.
  std::vector<Spent> last_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace tutti::simulation
