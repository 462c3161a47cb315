/// \file
/// Everything about a call that does not depend on its buffers, made once and kept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/call.hpp>
#include <tutti/options.hpp>

#include "communicator/check.hpp"
#include "communicator/select.hpp"
#include "execution/lower.hpp"
#include "transport/shm/direct_memory.hpp"
#include "transport/shm/path_trial.hpp"
#include "tuning/tuning.hpp"

namespace tutti {

/// What distinguishes plans. Counts of v-forms are compared in full.
struct PlanKey {
  Operation operation = Operation::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool scaled = false;  ///< the same on all ranks, whatever their factors
  bool in_place = false;
  Rank root = 0;
  std::uint64_t count = 0;
  bool operator==(const PlanKey&) const = default;
};

/// A program that is lowered when it is first taken: most calls that could take it never do.
class LazyProgram {
 public:
  explicit LazyProgram(std::function<execution::Program(const Call&)> lower) : lower_(std::move(lower)) {}
  /// `call`: one of the plan.
  const execution::Program& get(const Call& call) const {
    if (!program_) program_ = lower_(call);
    return *program_;
  }

 private:
  std::function<execution::Program(const Call&)> lower_;
  mutable std::optional<execution::Program> program_;
};

struct Plan {
  PlanKey key;
  std::vector<std::size_t> counts;  ///< v-forms: all count and displacement arrays, one after the other
  std::uint32_t hash = 0;           ///< equal on ranks that make the same call by the same algorithm
  bool empty = false;               ///< nothing to move
  std::size_t bytes = 0;            ///< nccl-tests' size of the call, by which it was chosen
  Choice choice;                    ///< without an algorithm where the user gave the schedule
  std::string name;                 ///< of the schedule behind `program`
  /// Reads a copy of the input: in place by a schedule that is not, or multiplied by the call's factor.
  /// Rounding the product before anybody folds it makes all ranks fold the same values.
  bool copies_input = false;
  bool direct_in_place = true;          ///< `mapped` and `attached` hold when ranks call in place, too
  execution::Program program;           ///< by messages
  bool whole_blocks = false;            ///< blocks of some lengths are one message each
  std::optional<LazyProgram> mapped;    ///< when all buffers are mapped
  std::optional<LazyProgram> attached;  ///< when all can be reached by cross-memory attach
  bool attached_writes = false;         ///< peers' memory, and reads none
  std::string mapped_name, attached_name;
  std::optional<LazyProgram> past_caches;  ///< `program`, but results are stored past the caches
  bool asks = false;                 ///< whatever the trial says, ranks ask each other whether all is mapped
  bool attach_first = false;         ///< by attach before the trial has measured it
  Path presumed = Path::slots;       ///< before any call of the trial was made
  std::shared_ptr<PathTrial> trial;  ///< between `program` and the others, where results are the same
  /// Between `program` and `past_caches`, by this rank alone: where ranks do not know each other's sizes.
  std::shared_ptr<PathTrial> own_trial;
  Path own_presumed = Path::slots;  ///< likewise
  /// Calls go by messages, wherever buffers are: what others would read is a copy, or written over too soon.
  [[nodiscard]] bool by_messages() const { return key.scaled || (key.in_place && !direct_in_place); }
  /// Calls run `program` on the caller's buffers, whatever others do.
  [[nodiscard]] bool plain() const {
    return !copies_input && !asks && trial == nullptr && own_trial == nullptr;
  }
};

class Planner {
 public:
  struct Setting {
    Rank rank = 0;
    int size = 1;
    bool shared_memory = true;  ///< all ranks on this host
    bool can_attach = false;
    std::size_t max_message = 0;
    std::size_t last_cache = 0;  ///< bytes, in the eyes of all ranks: who try other ways than the others wait
    int node_size = 0;           ///< ranks a node; 0: hosts are not equal blocks of ranks
    execution::Channels* channels = nullptr;
    const Options* options = nullptr;
    std::shared_ptr<const tuning::Tuning> tuning;  ///< rank 0's
    tuning::Scene scene;
    std::shared_ptr<const tuning::Choices> choices;  ///< for `scene`, rank 0's
    [[nodiscard]] bool measured() const { return tuning->measured(scene.transport, scene.ranks) != nullptr; }
    bool direct_memory = false;  ///< buffers of all ranks may be mapped: threads, or memory was registered
  };
  explicit Planner(Setting setting);
  /// The plan of a checked call. The reference holds until the next call; whoever keeps the plan copies the
  /// pointer.
  const std::shared_ptr<const Plan>& plan(const Call& call, const Sizes& sizes);
  /// Plans hold while this stays the same. Never 0.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  void use(const Schedule& schedule);
  void use_default(Collective collective);
  /// Buffers of other ranks may be mapped from now on: plans are made anew.
  void enable_direct_memory();
  [[nodiscard]] Setting& setting() { return setting_; }

 private:
  struct Prepared {
    Schedule schedule;
    execution::Overview overview;
  };
  struct User {
    Prepared prepared;
    std::uint64_t identity;  ///< a hash of its text
    bool in_place;           ///< proved in place, too
    bool one_fold;           ///< rounds small floats once
  };
  /// `plan` has its key, and is empty.
  void make(Plan& plan, const Call& call, const Sizes& sizes);
  [[nodiscard]] Circumstances circumstances_of(const Call& call, const execution::Shape& shape) const;
  /// nullptr: none that fits the call.
  [[nodiscard]] const User* schedule_of_user(const Call& call, const execution::Shape& shape) const;
  [[nodiscard]] execution::LowerSettings lower_settings(const Plan& plan, const Call& call,
                                                        const Sizes& sizes, bool sends_from_memory) const;
  void lower_to_messages(Plan& plan, const Call& call, const Prepared& source, const execution::Shape& shape,
                         const execution::LowerSettings& settings) const;
  /// As this communicator runs it, in place or not. Those of few ranks are kept, since building one takes
  /// longer than a short call; then the reference holds as long as the planner, else until the next schedule.
  const Prepared& prepared(const Algorithm& algorithm, Rank root, bool in_place);
  /// `sizes_known`: by all ranks.
  void add_one_sided(Plan& plan, Circumstances circumstances, bool sizes_known,
                     const execution::LowerSettings& settings);
  /// Whether the calls themselves show if results are better stored past the caches.
  [[nodiscard]] bool tries_stores(const Circumstances& circumstances) const;
  /// Of the ways that the plan has, if there are several. `own`: with the bytes of this rank's results, where
  /// others do not know them. `presumed_stream_from`: bytes from which results go past the caches before they
  /// are known to gain.
  void add_trials(Plan& plan, const Circumstances& circumstances, const Circumstances* own,
                  std::size_t presumed_stream_from);
  [[nodiscard]] const std::shared_ptr<PathTrial>& trial_of(const PlanKey& key,
                                                           const Circumstances& circumstances, Paths paths);
  /// `algorithm` is one of the library's, which stay. `copies_input`: of the input it reads a copy.
  LazyProgram lazily(const Algorithm& algorithm, const execution::LowerSettings& settings,
                     std::int64_t divisor, bool copies_input);
  void forget_plans();
  static constexpr std::size_t cache_entries = 64;
  static constexpr int few_ranks = 16;
  static constexpr std::size_t most_prepared = 64;
  Setting setting_;
  /// By algorithm, root, and whether its lanes go in turn.
  std::map<std::tuple<const Algorithm*, Rank, bool>, Prepared> prepared_;
  std::shared_ptr<const Plan> cache_[cache_entries];     ///< made here, and not const before others have them
  const std::shared_ptr<const Plan>* latest_ = nullptr;  ///< in `cache_`
  std::uint64_t generation_ = 1;
  std::vector<User> users_;  ///< at most one a collective
  /// By operation, type, reduction, whether it has a factor, range of sizes, whether calls of it take long,
  /// and write by attach, and what is tried: the same calls on every rank, whichever of them it plans first.
  std::map<std::tuple<Operation, DataType, ReduceOp, bool, int, bool, bool, Paths>,
           std::shared_ptr<PathTrial>>
      trials_;
};

PlanKey key_of(const Call& call, const Sizes& sizes);
/// The same on every rank that makes the same call; counts of v-forms are left out.
std::uint64_t hash_of(const PlanKey& key);
/// All count and displacement arrays of a v-form, each behind its length.
std::vector<std::size_t> all_counts(const Call& call);
/// Whether `counts` is that of this call.
bool same_counts(std::span<const std::size_t> counts, const Call& call);
/// nccl-tests' size of a call: of the larger buffer.
std::size_t bytes_of(const Call& call, int size);
/// Whether the operation folds.
bool reducing(Operation operation);
/// The bytes behind a call's chunks.
execution::Shape shape_of(const Call& call, Rank rank, int size);
/// What a call reads of its input, in the order of its blocks. Of v-forms the blocks, those that follow each
/// other as one: what lies between others is nobody's, or no memory at all.
std::vector<execution::Shape::Extent> read_of_input(const Call& call, const Sizes& sizes, Rank rank,
                                                    int size);
/// Of a call that reads a copy of that: its parts one after the other.
void close_gaps(execution::Shape& shape);
/// The collective whose schedules carry an operation; nothing for send and receive.
std::optional<Collective> collective_of(Operation operation);

}  // namespace tutti
