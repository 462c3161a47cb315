#include "collectives/interpreter.hpp"

#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "base/hash.hpp"

namespace tutti::test {
namespace {

using Number = std::uint64_t;
using Place = std::tuple<Rank, Space, int, int>;  // rank, buffer, chunk, piece

/// Different for all places, and sums of some are not those of others.
Number given(Rank rank, int chunk, int piece) {
  Number state = 0;
  for (const int part : {rank, chunk, piece}) state = splitmix64(state ^ static_cast<Number>(part));
  return state;
}

/// Not idempotent, and not linear, so that a reduction finished twice, late or never shows.
Number finished(Number sum) { return (sum ^ 0x5bd1e995U) * 3; }

std::optional<Number> wanted(const Schedule& s, Rank rank, int chunk, int piece) {
  const bool root = rank == s.root;
  const auto sum = [&](int which) {
    Number total = 0;
    for (Rank from = 0; from < s.ranks; ++from) total += given(from, which, piece);
    return finished(total);
  };
  switch (s.collective) {
    case Collective::all_reduce:
      return sum(chunk);
    case Collective::reduce:
      return root ? std::optional(sum(chunk)) : std::nullopt;
    case Collective::reduce_scatter:
      return sum(rank);
    case Collective::all_gather:
      return given(chunk, 0, piece);
    case Collective::gather:
      return root ? std::optional(given(chunk, 0, piece)) : std::nullopt;
    case Collective::broadcast:
      return given(s.root, chunk, piece);
    case Collective::scatter:
      return given(s.root, rank, piece);
    case Collective::all_to_all:
      return given(chunk, rank, piece);
    case Collective::barrier:
      break;
  }
  return std::nullopt;
}

struct Message {
  std::vector<Number> numbers;
  std::vector<Place> viewed;  // read on receiving, instead of the numbers
};

struct LaneState {
  Rank rank;
  const Lane* steps;
  std::size_t next = 0;
  bool slow;  // runs only when no other can
};

class Machine {
 public:
  Machine(const Schedule& schedule, const VerifyOptions& options, int room, unsigned seed)
      : s_(schedule), o_(options), room_(static_cast<std::size_t>(room)), random_(seed) {
    started_.resize(static_cast<std::size_t>(s_.ranks), false);
    ended_.resize(started_.size(), false);
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      late_.push_back(random_() % 4 == 0);
      for (const Lane& lane : s_.lanes[static_cast<std::size_t>(rank)]) {
        lanes_.push_back({rank, &lane, 0, random_() % 4 == 0});
      }
    }
  }

  std::optional<std::string> run() {
    for (bool moved = true; moved;) {
      moved = act(false) || act(true);
      if (!wrong_.empty()) return wrong_;
    }
    for (const bool ended : ended_) {
      if (!ended) return "deadlock";
    }
    for (const auto& [key, fifo] : fifos_) {
      if (!fifo.empty()) return "a message is left";
    }
    return std::nullopt;
  }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

  /// One random thing that can happen; with `slow` also those that are to happen late.
  bool act(bool slow) {
    const std::size_t things = lanes_.size() + 2 * started_.size();
    const std::size_t offset = random_() % things;
    for (std::size_t i = 0; i < things; ++i) {
      const std::size_t thing = (offset + i) % things;
      if (thing < lanes_.size()) {
        if ((slow || !lanes_[thing].slow) && step(lanes_[thing])) return true;
      } else if (thing < lanes_.size() + started_.size()) {
        const auto rank = thing - lanes_.size();
        if ((slow || !late_[rank]) && start(rank)) return true;
      } else if (slow == late_[thing - lanes_.size() - started_.size()]) {
        if (end(thing - lanes_.size() - started_.size())) return true;
      }
    }
    return false;
  }

  bool start(std::size_t rank) {
    if (started_[rank]) return false;
    started_[rank] = true;
    for (int piece = 0; piece < o_.pieces; ++piece) {
      for (int chunk = 0; chunk < input_chunks(s_); ++chunk) {
        memory_[place(in(chunk), static_cast<Rank>(rank), piece)] =
            given(static_cast<Rank>(rank), chunk, piece);
      }
    }
    return true;
  }

  bool end(std::size_t number) {
    if (ended_[number] || !started_[number]) return false;
    const auto rank = static_cast<Rank>(number);
    for (const LaneState& lane : lanes_) {
      if (lane.rank == rank && !over(lane)) return false;
    }
    for (const auto& [key, fifo] : fifos_) {
      for (const Message& message : fifo) {
        if (!message.viewed.empty() && std::get<0>(key) == rank) return false;
      }
    }
    ended_[number] = true;
    for (std::size_t other = 0; s_.collective == Collective::barrier && other < started_.size(); ++other) {
      if (!started_[other]) wrong_ = "the barrier is left early";
    }
    for (int piece = 0; piece < o_.pieces; ++piece) {
      for (int chunk = 0; chunk < output_chunks(s_); ++chunk) {
        const auto value = wanted(s_, rank, chunk, piece);
        if (value && memory_[place(out(chunk), rank, piece)] != *value) wrong_ = "wrong output";
      }
    }
    // From now on the memory is the caller's, who changes it.
    for (auto& [where, value] : memory_) {
      if (std::get<0>(where) == rank) value = random_();
    }
    return true;
  }

  Place place(const Operand& operand, Rank self, int piece, int offset = 0) const {
    const Rank rank = operand.rank < 0 ? self : operand.rank;
    const int chunk = operand.first + offset;
    if (operand.space == Space::scratch) return {rank, Space::scratch, chunk, 0};
    if (!o_.in_place || operand.space == Space::output) {
      const bool within = o_.in_place && output_chunks(s_) < input_chunks(s_) &&
                          (s_.collective != Collective::scatter || rank == s_.root);
      return {rank, operand.space, within ? chunk + rank : chunk, piece};
    }
    return {rank, Space::output, input_chunks(s_) < output_chunks(s_) ? chunk + rank : chunk, piece};
  }

  bool over(const LaneState& lane) const {
    return lane.next == lane.steps->size() * static_cast<std::size_t>(o_.pieces);
  }

  std::deque<Message>& fifo(Rank from, Rank to, int channel) { return fifos_[{from, to, channel}]; }

  bool step(LaneState& lane) {
    if (over(lane) || !started_[index(lane.rank)]) return false;
    const Step& step = (*lane.steps)[lane.next % lane.steps->size()];
    const int piece = static_cast<int>(lane.next / lane.steps->size());
    for (const Operand& x : step.sources) {
      if (x.kind == Operand::Kind::message && fifo(x.rank, lane.rank, x.channel).empty()) return false;
    }
    for (const Operand& x : step.sinks) {
      if (x.kind == Operand::Kind::message && fifo(lane.rank, x.rank, x.channel).size() >= room_)
        return false;
    }
    const Message result = fold(lane, step, piece);
    for (const Operand& x : step.sinks) {
      if (x.kind == Operand::Kind::message) {
        fifo(lane.rank, x.rank, x.channel).push_back(result);
        continue;
      }
      for (int i = 0; i < x.count; ++i) memory_[place(x, lane.rank, piece, i)] = result.numbers[index(i)];
    }
    ++lane.next;
    return true;
  }

  Message fold(const LaneState& lane, const Step& step, int piece) {
    Message result;
    for (const Operand& x : step.sources) {
      std::vector<Number> numbers;
      if (x.kind == Operand::Kind::message) {
        auto& way = fifo(x.rank, lane.rank, x.channel);
        numbers = way.front().numbers;
        for (std::size_t i = 0; i < way.front().viewed.size(); ++i)
          numbers[i] = memory_[way.front().viewed[i]];
        way.pop_front();
      } else {
        for (int i = 0; i < x.count; ++i) numbers.push_back(memory_[place(x, lane.rank, piece, i)]);
        for (int i = 0; i < x.count && o_.views && step.sources.size() == 1 && x.rank < 0; ++i) {
          result.viewed.push_back(place(x, lane.rank, piece, i));
        }
      }
      result.numbers.resize(numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) result.numbers[i] += numbers[i];
    }
    for (Number& number : result.numbers) {
      if (step.complete) number = finished(number);
    }
    return result;
  }

  const Schedule& s_;
  const VerifyOptions& o_;
  std::size_t room_;
  std::mt19937 random_;
  std::vector<LaneState> lanes_;
  std::vector<bool> started_, ended_, late_;
  std::map<Place, Number> memory_;
  std::map<std::tuple<Rank, Rank, int>, std::deque<Message>> fifos_;
  std::string wrong_;
};

}  // namespace

std::optional<std::string> interpret(const Schedule& schedule, const VerifyOptions& options, int room,
                                     unsigned seed) {
  return Machine(schedule, options, room, seed).run();
}

}  // namespace tutti::test
