#include "communicator/plan.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include <tutti/error.hpp>
#include <tutti/verify.hpp>

#include "base/hash.hpp"
#include "collectives/facts.hpp"
#include "collectives/passes.hpp"
#include "execution/chunk_ranges.hpp"

namespace tutti {

namespace {

// All count and displacement arrays of a v-form, each behind its length.
void append_all_counts(std::vector<std::size_t>& to, const Call& call) {
  for (const auto& part : {call.in_counts, call.in_displacements, call.out_counts, call.out_displacements}) {
    to.push_back(part.size());
    to.insert(to.end(), part.begin(), part.end());
  }
}

// A plan that nobody uses any more, as memory for another.
std::shared_ptr<Plan> emptied(std::shared_ptr<const Plan> over) {
  auto plan = std::const_pointer_cast<Plan>(std::move(over));
  Plan empty;
  empty.counts = std::move(plan->counts);
  empty.counts.clear();
  empty.program = std::move(plan->program);
  *plan = std::move(empty);
  return plan;
}

// Ranks that do not know each other's sizes must still cut messages alike, and take turns alike. Two know
// what goes each way, though not what the other keeps.
bool sizes_known(const execution::Shape& shape, int ranks) { return !shape.private_sizes || ranks == 2; }

std::size_t bytes_known(const Call& call, const execution::Shape& shape, Rank rank, int ranks) {
  constexpr std::size_t assumed = std::size_t{1} << 20U;
  if (!shape.private_sizes) return bytes_of(call, ranks);
  if (!sizes_known(shape, ranks)) return assumed;
  const auto peer = static_cast<std::size_t>(1 - rank);
  return shape.input[peer].bytes + shape.output[peer].bytes;
}

constexpr std::size_t never = static_cast<std::size_t>(-1);

// Results that no cache will hold go past the caches; docs/experiments-caches.md. In peers' memory: inputs
// and outputs of all ranks share the last cache.
std::size_t direct_stream_from(const Planner::Setting& setting) {
  return setting.last_cache / static_cast<std::size_t>(setting.size);
}

// What is sent to other hosts is read from the caller's memory, by algorithms that allow it.
bool sends_from_memory(const Planner::Setting& setting, const Algorithm& algorithm) {
  return !setting.shared_memory && algorithm.views;
}

// Without a copy of the input. Where messages are read from the caller's memory, what comes would be written
// over what is still to leave.
bool runs_in_place(const Planner::Setting& setting, const Algorithm& algorithm) {
  return algorithm.in_place || (algorithm.in_place_in_turn && setting.shared_memory);
}

// Of what is received and not folded. Ranks that do nothing else gain soonest, two that also send or fold
// never.
std::size_t received_stream_from(Operation operation, const Planner::Setting& setting) {
  if (operation == Operation::broadcast) return setting.last_cache / 2;
  return setting.size > 2 && !reducing(operation) ? 2 * setting.last_cache : never;
}

// Plan::hash. `identity`: of the schedule.
std::uint32_t hash_for_all(const Plan& plan, const Call& call, const execution::Shape& shape,
                           std::uint64_t identity) {
  std::uint64_t h = mix(hash_of(plan.key), identity);
  if (shape.uneven && !shape.private_sizes)
    for (const std::size_t c : call.in_counts.empty() ? call.out_counts : call.in_counts) h = mix(h, c);
  h = mix(h, plan.key.scaled ? 1U : 0U);  // has trials of its own
  return static_cast<std::uint32_t>(mix(h, plan.program.piece) >> 32);
}

bool reaches_into_peers(const Schedule& schedule) {
  const auto of_peer = [](Rank rank, const Operand& o) {
    return o.kind == Operand::Kind::memory && o.rank >= 0 && o.rank != rank;
  };
  for (Rank r = 0; r < schedule.ranks; ++r)
    for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(r)])
      for (const Step& step : lane)
        for (const auto* operands : {&step.sources, &step.sinks})
          if (std::any_of(operands->begin(), operands->end(),
                          [&](const Operand& o) { return of_peer(r, o); }))
            return true;
  return false;
}

}  // namespace

std::uint64_t hash_of(const PlanKey& key) {
  std::uint64_t h = mix(static_cast<std::uint64_t>(key.operation), static_cast<std::uint64_t>(key.type));
  h = mix(h, static_cast<std::uint64_t>(key.op));
  h = mix(h, static_cast<std::uint64_t>(key.root));
  return mix(h, key.count);
}

std::vector<std::size_t> all_counts(const Call& call) {
  std::vector<std::size_t> all;
  append_all_counts(all, call);
  return all;
}

bool same_counts(std::span<const std::size_t> counts, const Call& call) {
  if (!has_counts(call)) return counts.empty();
  for (const auto& part : {call.in_counts, call.in_displacements, call.out_counts, call.out_displacements}) {
    if (counts.size() <= part.size() || counts[0] != part.size() ||
        !std::equal(part.begin(), part.end(), counts.begin() + 1))
      return false;
    counts = counts.subspan(1 + part.size());
  }
  return counts.empty();
}

std::size_t bytes_of(const Call& call, int size) {
  const std::size_t element = size_of(call.type);
  switch (call.operation) {
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return call.count * element * static_cast<std::size_t>(size);
    default:
      return std::max({call.count, sum_of(call.in_counts), sum_of(call.out_counts)}) * element;
  }
}

bool reducing(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter || operation == Operation::reduce_scatter_v;
}

PlanKey key_of(const Call& call, const Sizes& sizes) {
  PlanKey key{call.operation, call.type, ReduceOp::sum, false, sizes.in_place, call.root, call.count};
  if (!reducing(call.operation)) return key;
  key.op = call.reduction.op;
  key.scaled = call.reduction.scaled || call.reduction.factor != 1.0;
  return key;
}

Planner::Planner(Setting setting) : setting_(std::move(setting)) {
  // What the first call would wait for.
  kernels::prepare();
  if (setting_.size > few_ranks) return;
  for (const auto& [key, algorithm] : setting_.choices->all()) (void)prepared(*algorithm, 0, false);
}

const Planner::Prepared& Planner::prepared(const Algorithm& algorithm, Rank root, bool in_place) {
  const bool turns = in_place && !algorithm.in_place;
  if (const auto kept = prepared_.find({&algorithm, root, turns}); kept != prepared_.end())
    return kept->second;
  if (setting_.size > few_ranks || prepared_.size() >= most_prepared) prepared_.clear();
  Schedule made = algorithm.make(setting_.size, root, setting_.node_size);
  if (sends_from_memory(setting_, algorithm)) made = sent_from_memory(std::move(made));
  if (turns) made = in_turn(std::move(made));
  execution::Overview overview = execution::overview_of(made);
  return prepared_
      .insert_or_assign({&algorithm, root, turns},
                        Prepared{.schedule = std::move(made), .overview = std::move(overview)})
      .first->second;
}

const std::shared_ptr<const Plan>& Planner::plan(const Call& call, const Sizes& sizes) {
  const PlanKey key = key_of(call, sizes);
  if (latest_ != nullptr && *latest_ != nullptr && (*latest_)->key == key && (*latest_)->counts.empty())
    return *latest_;
  std::shared_ptr<const Plan>& entry = cache_[hash_of(key) >> 32 & (cache_entries - 1)];
  if (entry == nullptr || entry->key != key || !same_counts(entry->counts, call)) {
    // Counts of v-forms may differ in each call.
    auto plan = entry != nullptr && entry->key == key && entry.use_count() == 1
                    ? emptied(std::exchange(entry, nullptr))
                    : std::make_shared<Plan>();
    plan->key = key;
    make(*plan, call, sizes);
    entry = std::move(plan);
  }
  latest_ = &entry;
  return entry;
}

Circumstances Planner::circumstances_of(const Call& call, const execution::Shape& shape) const {
  Circumstances circumstances;
  circumstances.collective = *collective_of(call.operation);
  circumstances.bytes = bytes_known(call, shape, setting_.rank, setting_.size);
  circumstances.ranks = setting_.size;
  circumstances.transport = setting_.scene.transport;
  circumstances.node_size = setting_.node_size;
  circumstances.rank_order = setting_.options->rank_order;
  circumstances.one_fold = rounds_coarsely(call);
  circumstances.forced = setting_.options->algorithm;
  circumstances.choices = setting_.choices.get();
  circumstances.measured = setting_.measured();
  circumstances.uneven = shape.uneven;
  return circumstances;
}

const Planner::User* Planner::schedule_of_user(const Call& call, const execution::Shape& shape) const {
  // Or their bits would not be those of other algorithms.
  const bool needs_one_fold =
      setting_.options->rank_order && reducing(call.operation) && rounds_between_steps(call);
  const auto user = std::find_if(users_.begin(), users_.end(), [&](const User& u) {
    const Schedule& schedule = u.prepared.schedule;
    return schedule.collective == *collective_of(call.operation) && schedule.root == call.root &&
           !shape.uneven && (u.one_fold || !needs_one_fold);
  });
  return user == users_.end() ? nullptr : &*user;
}

execution::LowerSettings Planner::lower_settings(const Plan& plan, const Call& call, const Sizes& sizes,
                                                 bool sends_from_memory) const {
  execution::LowerSettings settings;
  settings.piece = plan.choice.piece;
  settings.max_message = setting_.max_message;
  settings.type = call.type;
  settings.op = plan.key.op;
  settings.stable = sends_from_memory;
  settings.in_place = sizes.in_place && !plan.copies_input;
  settings.stream_from = setting_.options->stream_from;
  if (setting_.shared_memory) settings.stream_received_from = received_stream_from(call.operation, setting_);
  return settings;
}

// The way that all calls can go.
void Planner::lower_to_messages(Plan& plan, const Call& call, const Prepared& source,
                                const execution::Shape& shape,
                                const execution::LowerSettings& settings) const {
  plan.empty = call.operation != Operation::barrier && plan.bytes == 0 && !shape.private_sizes;
  if (plan.empty) {
    // Lowering connects, and of a call that moves nothing others may be through already, and gone.
    plan.program = {};
    plan.program.piece = std::min(settings.piece, settings.max_message);
  } else {
    plan.program = execution::lower(source.schedule, source.overview, setting_.rank, shape, settings,
                                    *setting_.channels, std::move(plan.program));
  }
  // Who goes on to something else, another communicator say, does not move what is left here.
  plan.program.flushes = plan.program.flushes || !setting_.shared_memory;
  if (plan.key.op == ReduceOp::average && reducing(call.operation)) plan.program.divisor = setting_.size;
}

void Planner::make(Plan& plan, const Call& call, const Sizes& sizes) {
  if (has_counts(call)) append_all_counts(plan.counts, call);
  execution::Shape shape = shape_of(call, setting_.rank, setting_.size);
  const Circumstances circumstances = circumstances_of(call, shape);
  plan.bytes = circumstances.bytes;
  plan.choice = select(circumstances);
  const User* user = schedule_of_user(call, shape);
  if (user != nullptr) plan.choice = {.piece = plan.choice.piece, .why = "given by the user"};
  const Algorithm* algorithm = plan.choice.algorithm;
  const bool chosen = user == nullptr && setting_.shared_memory && setting_.options->algorithm.empty();
  plan.whole_blocks = chosen && setting_.can_attach && !sizes_known(shape, setting_.size);
  plan.copies_input =
      plan.key.scaled ||
      (sizes.in_place && !(user != nullptr ? user->in_place : runs_in_place(setting_, *algorithm)));
  const Prepared& source = user != nullptr
                               ? user->prepared
                               : prepared(*algorithm, call.root, sizes.in_place && !plan.copies_input);
  if (plan.copies_input) close_gaps(shape);
  plan.name = source.schedule.name;

  execution::LowerSettings settings =
      lower_settings(plan, call, sizes, algorithm != nullptr && sends_from_memory(setting_, *algorithm));
  settings.whole_steps = user != nullptr;
  settings.whole_blocks = plan.whole_blocks;
  Circumstances own = circumstances;
  if (shape.private_sizes) own.bytes = sum_of(call.out_counts) * size_of(call.type);
  const bool stores = chosen && tries_stores(own);
  const std::size_t presumed_stream_from = std::min(settings.stream_from, settings.stream_received_from);
  if (stores) settings.stream_received_from = never;
  lower_to_messages(plan, call, source, shape, settings);
  plan.hash =
      hash_for_all(plan, call, shape,
                   user != nullptr ? user->identity
                                   : mix(fnv1a(plan.name), static_cast<std::uint64_t>(setting_.node_size)));

  if (!chosen || setting_.size == 1) return;
  // Of a call with a factor others would have to read a copy, and they reach the caller's buffers only.
  if (!plan.key.scaled) add_one_sided(plan, circumstances, sizes_known(shape, setting_.size), settings);
  if (stores) {
    settings.stream_from = 0;
    plan.past_caches = lazily(*algorithm, settings, plan.program.divisor, plan.copies_input);
  }
  add_trials(plan, circumstances, shape.private_sizes ? &own : nullptr, presumed_stream_from);
}

// Registered memory has a rule of its own.
bool Planner::tries_stores(const Circumstances& circumstances) const {
  return !setting_.direct_memory && setting_.options->stream_from == never &&
         streaming_may_pay(circumstances, setting_.last_cache);
}

LazyProgram Planner::lazily(const Algorithm& algorithm, const execution::LowerSettings& settings,
                            std::int64_t divisor, bool copies_input) {
  return LazyProgram([this, settings, &algorithm, divisor, copies_input](const Call& call) {
    const auto& [schedule, overview] = prepared(algorithm, call.root, settings.in_place);
    execution::Shape shape = shape_of(call, setting_.rank, setting_.size);
    if (copies_input) close_gaps(shape);
    auto program = execution::lower(schedule, overview, setting_.rank, shape, settings, *setting_.channels);
    program.divisor = divisor;
    return program;
  });
}

void Planner::add_one_sided(Plan& plan, Circumstances circumstances, bool sizes_known,
                            const execution::LowerSettings& settings) {
  const auto lowered = [&](bool attach, std::string& name) -> std::optional<LazyProgram> {
    circumstances.one_sided = true;
    circumstances.attach_only = attach;
    const Choice choice = select(circumstances);
    if (choice.algorithm == nullptr) return std::nullopt;
    execution::LowerSettings direct = settings;
    direct.piece = choice.piece;
    direct.max_message = execution::unlimited;
    direct.in_place = plan.key.in_place && choice.algorithm->in_place;
    direct.one_sided = true;
    direct.whole_blocks = false;
    if (!attach) direct.stream_from = std::min(direct.stream_from, direct_stream_from(setting_));
    if (!choice.algorithm->in_place) plan.direct_in_place = false;
    name = choice.algorithm->name;
    return lazily(*choice.algorithm, direct, plan.program.divisor, false);
  };
  const bool same = same_as_one_sided(*plan.choice.algorithm);
  if (setting_.direct_memory && (same ? direct_may_pay : direct_pays)(circumstances))
    plan.mapped = lowered(false, plan.mapped_name);
  plan.asks = plan.mapped && (!same || (sizes_known && direct_surely_pays(circumstances)));
  if (!same) return;
  if (setting_.can_attach && attach_may_pay(circumstances)) plan.attached = lowered(true, plan.attached_name);
  plan.attached_writes = plan.attached && writes_by_attach(circumstances);
  plan.attach_first = plan.attached && sizes_known && attach_pays(circumstances);
}

const std::shared_ptr<PathTrial>& Planner::trial_of(const PlanKey& key, const Circumstances& circumstances,
                                                    Paths paths) {
  constexpr int bits_a_range = 2;  // sizes of a range differ by a factor of up to four
  const auto range = static_cast<int>(std::bit_width(circumstances.bytes)) / bits_a_range;
  const bool is_long = takes_long(circumstances);
  auto& trial = trials_[{key.operation, key.type, key.op, key.scaled, range, is_long,
                         writes_by_attach(circumstances), paths}];
  if (trial == nullptr)
    trial = std::make_shared<PathTrial>(paths, is_long ? PathTrial::of_long_calls : PathTrial::usual);
  return trial;
}

void Planner::add_trials(Plan& plan, const Circumstances& circumstances, const Circumstances* own,
                         std::size_t presumed_stream_from) {
  const bool mapped = plan.mapped && !plan.asks;
  Paths paths{Path::slots};
  if (plan.past_caches && own == nullptr) paths.add(Path::past_caches);
  if (plan.attached || mapped) paths.add(Path::direct);
  if (paths.size() > 1) plan.trial = trial_of(plan.key, circumstances, paths);
  if (plan.past_caches && own != nullptr)
    plan.own_trial = trial_of(plan.key, *own, {Path::slots, Path::past_caches});
  Path& presumed = own != nullptr ? plan.own_presumed : plan.presumed;
  const std::size_t bytes = own != nullptr ? own->bytes : circumstances.bytes;
  if (plan.past_caches && bytes >= presumed_stream_from) presumed = Path::past_caches;
  // Whoever registers memory for blocks of any length has long ones.
  if (plan.attach_first || (mapped && direct_pays(circumstances))) plan.presumed = Path::direct;
}

void Planner::use(const Schedule& schedule) {
  if (schedule.ranks != setting_.size)
    throw Error(ErrorCode::invalid_schedule,
                "schedule " + schedule.name + " is for " + std::to_string(schedule.ranks) +
                    " ranks; this communicator has " + std::to_string(setting_.size));
  Proof proof;
  if (const auto fault = verify(schedule, {.credits = 0, .pieces = 3}, &proof))
    throw Error(ErrorCode::invalid_schedule, "schedule " + schedule.name + ": " + to_string(*fault));
  if (setting_.options->rank_order && reduces(schedule.collective) && !proof.rank_order)
    throw Error(ErrorCode::invalid_schedule, "schedule " + schedule.name +
                                                 " does not reduce in rank order, as Options::rank_order "
                                                 "(TUTTI_RANK_ORDER) asks");
  if (reaches_into_peers(schedule))
    throw Error(ErrorCode::invalid_schedule,
                "schedule " + schedule.name +
                    " reads or writes memory of other ranks; only the library's own schedules may, " +
                    "since callers' buffers need not be reachable: use messages");
  execution::require_chunks_kept(schedule);
  const bool in_place = !verify(schedule, {.credits = 0, .pieces = 3, .in_place = true});
  use_default(schedule.collective);
  users_.push_back({.prepared = {.schedule = schedule, .overview = execution::overview_of(schedule)},
                    .identity = fnv1a(to_text(schedule)),
                    .in_place = in_place,
                    .one_fold = proof.one_fold});
}

void Planner::use_default(Collective collective) {
  std::erase_if(users_, [&](const User& u) { return u.prepared.schedule.collective == collective; });
  forget_plans();
}

void Planner::forget_plans() {
  for (auto& entry : cache_) entry.reset();
  ++generation_;
}

void Planner::enable_direct_memory() {
  setting_.direct_memory = true;
  trials_.clear();
  forget_plans();
}

}  // namespace tutti
