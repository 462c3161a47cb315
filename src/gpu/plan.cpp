#include "gpu/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "gpu/flatten.hpp"
#include "gpu/messages.hpp"
#include "gpu/norm_program.hpp"

namespace tutti::gpu {

namespace {

constexpr std::size_t KiB = 1024;
// Ranks that do not know each other's sizes must still cut messages alike.
constexpr std::size_t assumed_private_bytes = 1024 * KiB;
// Bytes of a call that are worth a block of their own.
constexpr std::size_t bytes_a_slice = 64 * KiB;
constexpr std::size_t align = 64;
constexpr std::size_t smallest_program = 1024;
constexpr std::size_t block_of_programs = 512 * KiB;

// Whether it pays to fold each row only once: from where vLLM's all-reduce has two stages
// (csrc/custom_all_reduce.cuh).
constexpr bool two_shots_pay(int ranks, std::size_t bytes) {
  return ranks > 2 && bytes >= (ranks <= 4 ? 512 * KiB : 256 * KiB);
}

Circumstances circumstances_of(const Call& call, const execution::Shape& shape, const Setting& setting) {
  Circumstances c;
  c.collective = *collective_of(call.operation);
  c.bytes = shape.private_sizes ? assumed_private_bytes : bytes_of(call, setting.group.size);
  c.ranks = setting.group.size;
  c.node_size = setting.node_size;
  c.choices = setting.choices.get();
  c.rank_order = setting.rank_order;
  c.one_fold = rounds_coarsely(call);
  c.uneven = shape.uneven;
  c.forced = setting.algorithm;
  return c;
}

bool copies_input(const PlanKey& key, const Sizes& sizes, const Algorithm& algorithm) {
  return key.scaled || (sizes.in_place && !algorithm.in_place);
}

}  // namespace

Planner::Planner(std::shared_ptr<Api> api, const Setting& setting, const Connection& connection)
    : api_(std::move(api)), setting_(setting), connection_(connection), room_(block_of_programs) {
  blocks_.push_back(allocate(api_, block_of_programs));
}

Plan* Planner::find(const PlanKey& key, const std::vector<std::size_t>& counts, bool reachable) const {
  const auto found = std::find_if(plans_.rbegin(), plans_.rend(), [&](const auto& p) {
    return p->key == key && p->counts == counts && p->reachable == reachable;
  });
  return found == plans_.rend() ? nullptr : found->get();
}

void Planner::upload(Plan& plan, const std::vector<std::byte>& flat) {
  const auto& header = *reinterpret_cast<const device::Program*>(flat.data());
  plan.lanes = static_cast<int>(header.lanes);
  plan.slices = static_cast<int>(header.slices);
  plan.type = header.type;
  plan.op = header.op;
  plan.scratch_bytes = header.scratch_bytes * header.slices;
  plan.flat_bytes = flat.size();
  plan.program_bytes = std::bit_ceil(std::max(flat.size(), smallest_program));
  plan.program = room_for(plan.program_bytes);
  try {
    api_->upload(plan.program, flat.data(), flat.size());
  } catch (...) {
    spare_.emplace(plan.program_bytes, plan.program);
    throw;
  }
}

std::byte* Planner::room_for(std::size_t bytes) {
  if (const auto found = spare_.find(bytes); found != spare_.end()) return spare_.extract(found).mapped();
  if (bytes > block_of_programs) return blocks_.emplace(blocks_.begin(), allocate(api_, bytes))->get();
  if (bytes > room_) {
    blocks_.push_back(allocate(api_, block_of_programs));
    room_ = block_of_programs;
  }
  std::byte* const room = blocks_.back().get() + (block_of_programs - room_);
  room_ -= bytes;
  return room;
}

void Planner::trim(Timeline& timeline) {
  if (plans_.size() < most_plans) return;
  auto kept = static_cast<std::size_t>(
      std::ranges::count_if(plans_, [](const std::unique_ptr<Plan>& p) { return !p->captured; }));
  if (kept < most_plans) return;
  const std::uint64_t done = timeline.done();
  for (; kept >= most_plans; --kept) {
    auto oldest = plans_.end();
    for (auto p = plans_.begin(); p != plans_.end(); ++p)
      if (!(*p)->captured && (*p)->last_launch <= done &&
          (oldest == plans_.end() || (*p)->last_launch < (*oldest)->last_launch))
        oldest = p;
    if (oldest == plans_.end()) return;
    if ((*oldest)->program != nullptr) spare_.emplace((*oldest)->program_bytes, (*oldest)->program);
    plans_.erase(oldest);
  }
}

Plan& Planner::collective(const Call& call, const Sizes& sizes, bool reachable) {
  const PlanKey key = key_of(call, sizes);
  std::vector<std::size_t> counts;
  if (has_counts(call)) counts = all_counts(call);
  if (Plan* known = find(key, counts, reachable)) return *known;
  auto plan = make(call, sizes, key, reachable);
  plan->counts = std::move(counts);
  return *plans_.emplace_back(std::move(plan));
}

// On everybody's buffers where that pays, else by messages.
const Algorithm& Planner::choose(const Circumstances& call, const PlanKey& key, const Sizes& sizes,
                                 bool reachable) const {
  if (reachable && !call.uneven && call.forced.empty() && call.ranks > 1 && direct_may_pay(call)) {
    Circumstances direct = call;
    direct.one_sided = true;
    const Algorithm* const found = select(direct).algorithm;
    // A copy of the input is not where other processes reach it.
    if (found != nullptr && (connection_.one_address_space() || !copies_input(key, sizes, *found)))
      return *found;
  }
  return *select(call).algorithm;
}

std::unique_ptr<Plan> Planner::make(const Call& call, const Sizes& sizes, const PlanKey& key,
                                    bool reachable) {
  const int size = setting_.group.size;
  execution::Shape shape = shape_of(call, setting_.group.rank, size);
  const Circumstances circumstances = circumstances_of(call, shape, setting_);
  auto plan = std::make_unique<Plan>();
  plan->key = key;
  plan->title = describe(call);
  plan->reachable = reachable;
  plan->empty = call.operation != Operation::barrier && circumstances.bytes == 0 && !shape.private_sizes;

  const Algorithm& algorithm = choose(circumstances, key, sizes, reachable);
  const Schedule schedule = algorithm.make(size, call.root, setting_.node_size);
  const int lanes = std::max(1, static_cast<int>(schedule.lanes.front().size()));
  const std::size_t chunk = circumstances.bytes / static_cast<std::size_t>(std::max(schedule.chunks, 1));
  const device::Arena& arena = connection_.arena();
  const int most = std::max(1, std::min<int>(setting_.options.blocks / lanes,
                                             algorithm.one_sided ? arena.slices : arena.slot_slices));
  const int slices = static_cast<int>(
      std::clamp<std::size_t>(circumstances.bytes / bytes_a_slice, 1, static_cast<std::size_t>(most)));

  execution::LowerSettings settings;
  settings.sends_apart = 0;  // a block of threads reads memory once
  settings.max_message = algorithm.one_sided ? execution::unlimited : arena.slot_bytes;
  settings.piece = (chunk / static_cast<std::size_t>(slices) / align + 1) * align;
  settings.type = call.type;
  settings.op = key.op;
  settings.one_sided = algorithm.one_sided;
  plan->copies_input = copies_input(key, sizes, algorithm);
  if (plan->copies_input) close_gaps(shape);
  settings.in_place = sizes.in_place && !plan->copies_input;
  NamedChannels channels;
  execution::Program program = execution::lower(schedule, execution::overview_of(schedule),
                                                setting_.group.rank, shape, settings, channels);
  if (key.op == ReduceOp::average && reducing(call.operation)) program.divisor = size;
  const FlattenSettings flattening{call.type, key.op, algorithm.one_sided, slices, arena.packet_bytes};
  upload(*plan, flatten(program, flattening));

  std::uint64_t h =
      mix(fnv1a(schedule.name, hash_of(key)), static_cast<std::uint64_t>(slices) << 32 ^ program.piece);
  if (shape.uneven && !shape.private_sizes)
    for (const std::size_t c : call.in_counts.empty() ? call.out_counts : call.in_counts) h = mix(h, c);
  plan->tag = static_cast<std::uint32_t>(h >> 32);
  plan->description =
      fmt::format("{}: {}, {} lane{} x {} slice{}, pieces of {} bytes, {}", plan->title, schedule.name, lanes,
                  lanes == 1 ? "" : "s", slices, slices == 1 ? "" : "s", program.piece,
                  algorithm.one_sided ? "on everybody's buffers"
                  : slices == 1       ? fmt::format("packets up to {} bytes, then slots", arena.packet_bytes)
                                      : "slots");
  return plan;
}

// Both ends must take as many, whatever else is in their groups: there may be a lane to every rank and one
// from it.
int Planner::message_slices() const {
  constexpr int most = 4;
  return std::clamp(setting_.options.blocks / (2 * setting_.group.size), 1,
                    std::min<int>(most, connection_.arena().slot_slices));
}

Plan& Planner::messages(std::span<const Call> calls) {
  // Sends to one peer and receives from one are one lane each, in the order of their calls.
  PlanKey key;
  key.operation = Operation::send;
  std::vector<std::size_t> counts;
  for (const Call& call : calls)
    counts.insert(counts.end(),
                  {static_cast<std::size_t>(call.operation), static_cast<std::size_t>(call.root),
                   static_cast<std::size_t>(call.type), call.count});
  if (Plan* known = find(key, counts)) return *known;
  auto plan = std::make_unique<Plan>();
  plan->key = key;
  plan->counts = counts;
  upload(*plan, message_program(calls, setting_.group.rank, message_slices(), connection_.arena()));
  plan->title =
      calls.size() == 1 ? describe(calls[0]) : fmt::format("group of {} sends and receives", calls.size());
  plan->tag = static_cast<std::uint32_t>(fnv1a("messages") >> 32);
  plan->description =
      fmt::format("{} messages, {} lanes x {} slices", calls.size(), plan->lanes, plan->slices);
  return *plans_.emplace_back(std::move(plan));
}

Plan& Planner::counted_exchange(DataType type) {
  PlanKey key;
  key.operation = Operation::all_to_all_v;
  key.type = type;
  const std::vector<std::size_t> counts{0};  // unlike those of any call
  if (Plan* known = find(key, counts)) return *known;
  auto plan = std::make_unique<Plan>();
  plan->key = key;
  plan->counts = counts;
  plan->title = "all_to_all_v (counts on the device)";
  const int slices = std::clamp<int>(setting_.options.blocks / 2, 1, connection_.arena().slot_slices);
  upload(*plan,
         counted_exchange_program(setting_.group.rank, setting_.group.size, slices, connection_.arena()));
  plan->tag = static_cast<std::uint32_t>(mix(fnv1a("counted"), static_cast<std::uint64_t>(type)) >> 32);
  return *plans_.emplace_back(std::move(plan));
}

Plan& Planner::norm(const AllReduceRmsNorm& arguments) {
  PlanKey key;
  key.operation = Operation::all_reduce;
  key.type = arguments.type;
  const std::vector<std::size_t> counts{arguments.tokens, arguments.hidden};  // an all_reduce has none
  if (Plan* known = find(key, counts)) return *known;
  auto plan = std::make_unique<Plan>();
  plan->key = key;
  plan->counts = counts;
  NormShape shape;
  shape.rank = setting_.group.rank;
  shape.ranks = setting_.group.size;
  shape.tokens = arguments.tokens;
  shape.row_bytes = arguments.hidden * size_of(arguments.type);
  shape.type = arguments.type;
  shape.blocks = setting_.options.blocks;
  shape.two_shot = two_shots_pay(shape.ranks, shape.tokens * shape.row_bytes);
  upload(*plan, norm_program(shape, connection_.arena()));
  plan->tag = static_cast<std::uint32_t>(
      mix(mix(fnv1a("rms_norm", hash_of(key)), arguments.tokens), arguments.hidden) >> 32);
  plan->title = fmt::format("all_reduce_rms_norm({} x {} x {})", arguments.tokens, arguments.hidden,
                            name(arguments.type));
  plan->description =
      fmt::format("{}: {}, {} slices", plan->title, shape.two_shot ? "two shots" : "one shot", plan->slices);
  return *plans_.emplace_back(std::move(plan));
}

}  // namespace tutti::gpu
