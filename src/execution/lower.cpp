#include "execution/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <optional>
#include <span>
#include <tuple>

#include <tutti/error.hpp>

#include "execution/chunk_ranges.hpp"

namespace tutti::execution {

// What a proof counts on, every transport has.
static_assert(max_channels == transport::schedule_channels && max_credits <= transport::channel_credits);

namespace {

constexpr std::size_t align = 64;
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
constexpr bool is_whole_block(std::uint64_t bytes) {
  return bytes > whole_block_over && bytes < whole_block_end;
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Overview& overview, Rank rank, const Shape& shape,
           const LowerSettings& settings, Channels& channels, Program room)
      : schedule_(schedule),
        overview_(overview),
        rank_(rank),
        shape_(shape),
        settings_(settings),
        channels_(channels) {
    program_.lanes = std::move(room.lanes);
    program_.sources = std::move(room.sources);
    program_.sinks = std::move(room.sinks);
    program_.sources.clear();
    program_.sinks.clear();
  }

  Program run() {
    program_.element_bytes = size_of(settings_.type);
    program_.kernel = kernels::fold_for(settings_.type, settings_.op);
    program_.stable = settings_.stable;
    program_.lanes.resize(schedule_.lanes[static_cast<std::size_t>(rank_)].size());
    reserve();
    if (shape_.divisible) ranges_ = chunk_ranges(schedule_, rank_);
    if (settings_.one_sided)
      lower_one_sided(usable_piece());
    else if (shape_.divisible)
      lower_divisible(usable_piece());
    else
      lower_blocks(usable_piece());
    add_whole_blocks();
    program_.brief = program_.message_bytes <= brief_message && runs_once();
    static std::atomic<std::uint64_t> programs{0};
    program_.id = ++programs;
    return std::move(program_);
  }

 private:
  // The wanted one, as far as messages may be as long.
  [[nodiscard]] std::size_t usable_piece() const {
    std::size_t piece = settings_.piece, unit = align;
    if (settings_.max_message != unlimited) {
      const std::size_t longest = settings_.max_message / static_cast<std::size_t>(overview_.largest_count);
      piece = std::min(piece, longest);
      if (longest < align) unit = program_.element_bytes;  // of hundreds of chunks, as hundreds of ranks send
    }
    return std::max(piece / unit * unit, unit);
  }

  [[nodiscard]] std::size_t chunks() const { return static_cast<std::size_t>(std::max(schedule_.chunks, 1)); }
  // Bytes of a chunk where the schedule's ones share `total`.
  [[nodiscard]] std::size_t chunk_of(std::size_t total) const {
    return chunk_bytes(total, chunks(), program_.element_bytes);
  }
  // Bytes of scratch for chunks of so many.
  [[nodiscard]] std::uint64_t scratch_of(std::size_t chunk) const {
    return static_cast<std::uint64_t>(schedule_.scratch) * chunk;
  }

  void lower_one_sided(std::size_t piece) {
    program_.piece = program_.stride = piece;
    program_.scratch_bytes = scratch_of(piece);
    add_part(chunk_of(shape_.total), piece, 0, shape_.total, 0);
  }

  // Whole rounds of one piece of every chunk, then a rest with smaller chunks.
  void lower_divisible(std::size_t piece) {
    const std::size_t round = chunks() * piece;
    const std::size_t rounds = shape_.total > round ? (shape_.total - 1) / round : 0;
    const std::size_t rest = shape_.total - rounds * round;
    const std::size_t rest_chunk = std::min(piece, chunk_of(rest));
    program_.piece = piece;
    program_.stride = round;
    require_fits(rounds != 0 ? piece : rest_chunk);
    if (rounds != 0) add_part(piece, piece, 0, round, rounds);
    // Lanes go on to the rest one by one, and places of its scratch are not those of the rounds.
    scratch_origin_ = rounds != 0 ? scratch_of(piece) : 0;
    program_.scratch_bytes = scratch_origin_ + scratch_of(rest_chunk);
    add_part(rest_chunk, rest_chunk, rounds * round, rest, 1);
  }

  // Every chunk has its place in the caller's buffer.
  void lower_blocks(std::size_t piece) {
    std::size_t longest = 0;
    for (const auto& extents : {shape_.input, shape_.output})
      for (const auto& extent : extents) longest = std::max(longest, extent.bytes);
    if (!shape_.private_sizes) piece = std::min(piece, std::max(round_up(longest, align), align));
    program_.piece = program_.stride = piece;
    program_.scratch_bytes = scratch_of(piece);
    require_fits(std::min(piece, longest));
    // A lane of tokens goes round as often as those of data, wherever they are.
    add_part(0, piece, 0, 0, shape_.uneven ? 0 : (longest + piece - 1) / piece);
  }

  // On all ranks alike, whoever sends the longest message.
  void require_fits(std::size_t chunk) const {
    const auto most = static_cast<std::size_t>(overview_.largest_count);
    if (settings_.max_message == unlimited || chunk <= settings_.max_message / most) return;
    throw Error(ErrorCode::invalid_schedule,
                fmt::format("schedule {}: a message of {} chunks would be longer than the {} bytes that "
                            "messages may have here; use fewer chunks a message, or another algorithm "
                            "(TUTTI_ALGORITHM)",
                            schedule_.name, most, settings_.max_message));
  }
  [[nodiscard]] bool runs_once() const {
    return std::all_of(program_.lanes.begin(), program_.lanes.end(), [](const auto& parts) {
      return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.iterations == 1; });
    });
  }

  // Of one part.
  void reserve() {
    std::size_t sources = 0, sinks = 0;
    for (const Lane& lane : schedule_.lanes[static_cast<std::size_t>(rank_)])
      for (const Step& step : lane) sources += step.sources.size(), sinks += step.sinks.size();
    program_.sources.reserve(sources);
    program_.sinks.reserve(sinks);
  }

  // `chunk`: bytes of a chunk of a divisible buffer in this part, which covers [origin, origin + total) of
  // it.
  void add_part(std::size_t chunk, std::size_t scratch_chunk, std::size_t origin, std::size_t total,
                std::uint64_t iterations) {
    chunk_ = chunk;
    scratch_chunk_ = scratch_chunk;
    origin_ = origin;
    part_total_ = total;
    const auto& lanes = schedule_.lanes[static_cast<std::size_t>(rank_)];
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      Part part = empty_part(program_.lanes[l]);
      part.iterations = iterations;
      part.instructions.reserve(lanes[l].size());
      for (std::size_t s = 0; s < lanes[l].size(); ++s) {
        auto instruction = lower_step(lanes[l][s], l, s);
        if (!instruction) continue;
        const std::uint64_t pieces = (instruction->bytes + program_.stride - 1) / program_.stride;
        if (settings_.one_sided) {
          program_.lanes[l].push_back({{*instruction}, std::max<std::uint64_t>(pieces, 1)});
          continue;
        }
        if (send_whole(*instruction)) continue;
        if (!shape_.divisible) part.iterations = std::max(part.iterations, pieces);
        if (const auto copy = copy_of(*instruction)) {
          part.instructions.push_back(send_of(*instruction));
          part.instructions.push_back(*copy);
        } else {
          part.instructions.push_back(*instruction);
        }
      }
      part.iterations = std::max<std::uint64_t>(part.iterations, 1);
      if (!part.instructions.empty()) program_.lanes[l].push_back(std::move(part));
    }
    in_old_room_ = false;
  }

  // The first part of a lane takes the place of what the lane held before.
  [[nodiscard]] Part empty_part(std::vector<Part>& lane) const {
    Part part;
    if (!in_old_room_ || lane.empty()) return part;
    part = std::move(lane.front());
    part.instructions.clear();
    lane.clear();
    return part;
  }

  [[nodiscard]] const Shape::Extent& extent(const Operand& o) const {
    return (o.space == Space::input ? shape_.input : shape_.output)[static_cast<std::size_t>(o.first)];
  }

  [[nodiscard]] std::uint64_t offset(const Operand& o) const {
    if (o.space == Space::scratch)
      return scratch_origin_ + static_cast<std::uint64_t>(o.first) * scratch_chunk_;
    if (!shape_.divisible) return shape_.uneven && of_peer(o) ? 0 : extent(o).offset;
    return origin_ + static_cast<std::uint64_t>(o.first) * chunk_;
  }

  // Bytes of one chunk of the step, or of the whole slice in a divisible buffer.
  [[nodiscard]] std::uint64_t bytes_of(const Step& step, std::size_t lane, std::size_t index) const {
    if (shape_.divisible) {
      const ChunkRange range = ranges_[lane][index];
      const std::size_t from = std::min(static_cast<std::size_t>(range.first) * chunk_, part_total_);
      const std::size_t to =
          std::min(static_cast<std::size_t>(range.first + range.count) * chunk_, part_total_);
      return to - from;
    }
    for (const auto* operands : {&step.sources, &step.sinks})
      for (const Operand& o : *operands)
        if (o.kind == Operand::Kind::memory && o.space != Space::scratch && !(shape_.uneven && of_peer(o)))
          return extent(o).bytes;
    if (shape_.uneven)
      throw Error(ErrorCode::invalid_schedule, "schedule " + schedule_.name +
                                                   " has steps without memory of the caller; such " +
                                                   "schedules cannot carry blocks of different sizes");
    return shape_.input.empty() ? shape_.output[0].bytes : shape_.input[0].bytes;
  }

  std::optional<Instruction> lower_step(const Step& step, std::size_t lane, std::size_t index) {
    Instruction out;
    const int count = step.sources.empty() ? step.sinks[0].count : step.sources[0].count;
    const bool token = count == 0;
    out.whole = !settings_.one_sided && (shape_.divisible || token);
    assert(!settings_.one_sided || count <= 1);
    out.segments = out.whole ? 1 : static_cast<std::uint32_t>(count);
    out.bytes = token ? 0 : bytes_of(step, lane, index);
    out.completes = step.complete;
    out.first_source = static_cast<std::uint32_t>(program_.sources.size());
    out.first_sink = static_cast<std::uint32_t>(program_.sinks.size());
    if (shape_.private_sizes)
      out.salt = static_cast<std::uint32_t>((out.bytes + 1) * 0x9E3779B97F4A7C15ULL >> 32);
    for (const Operand& o : step.sources) {
      program_.sources.push_back(source(o));
      ++out.sources;
    }
    lower_sinks(step, out);
    if (self_copy(step, out)) return std::nullopt;
    out.kind = kind(out);
    program_.max_operands = std::max({program_.max_operands, out.sources, out.sinks});
    const std::uint64_t piece = out.whole ? out.bytes : std::min(out.bytes, program_.stride) * out.segments;
    program_.message_bytes = std::max(program_.message_bytes, piece);
    return out;
  }

  // A block that is one message is a lane of its own, which waits for nothing but the peer.
  bool send_whole(Instruction instruction) {
    if (!settings_.whole_blocks || !is_whole_block(instruction.bytes)) return false;
    if (instruction.sources != 1 || instruction.sinks != 1) return false;
    assert(settings_.max_message <= whole_block_over);
    const bool sends = program_.sinks[instruction.first_sink].sender != nullptr;
    const bool receives = program_.sources[instruction.first_source].receiver != nullptr;
    if (sends == receives) return false;  // a copy
    instruction.kind = sends ? Instruction::Kind::send : Instruction::Kind::receive;
    instruction.whole = true;
    instruction.streaming_sinks = 0;
    (sends ? whole_sends_ : whole_receives_).push_back({Part{{instruction}, 1}});
    program_.message_bytes = std::max(program_.message_bytes, instruction.bytes);
    return true;
  }

  // Sends first: others wait for them.
  void add_whole_blocks() {
    program_.lends = !whole_sends_.empty();
    program_.stable = program_.stable || program_.lends;
    program_.flushes = program_.lends;
    program_.lanes.insert(program_.lanes.begin(), whole_sends_.begin(), whole_sends_.end());
    program_.lanes.insert(program_.lanes.end(), whole_receives_.begin(), whole_receives_.end());
  }

  // The one copy in a step that is to become a send and a copy: of short memory, and its first sink.
  [[nodiscard]] std::optional<Instruction> copy_of(Instruction step) const {
    const bool brief =
        settings_.sends_apart != 0 && step.bytes <= settings_.sends_apart && !settings_.whole_steps;
    if (!brief || shape_.divisible || step.kind != Instruction::Kind::fold || step.sources != 1 ||
        step.segments != 1 || step.completes || step.streaming_sinks != 0)
      return std::nullopt;
    const Source& from = program_.sources[step.first_source];
    const auto sinks = std::span(program_.sinks).subspan(step.first_sink, step.sinks);
    if (from.receiver != nullptr || from.base == Base::scratch || sinks[0].sender != nullptr)
      return std::nullopt;
    if (!std::all_of(sinks.begin() + 1, sinks.end(), [](const Sink& s) { return s.sender != nullptr; }))
      return std::nullopt;
    step.kind = Instruction::Kind::copy;
    step.sinks = 1;
    return step;
  }
  [[nodiscard]] static Instruction send_of(Instruction step) {
    step.kind = Instruction::Kind::send;
    ++step.first_sink;
    --step.sinks;
    return step;
  }

  Source source(const Operand& o) {
    Source s;
    if (o.kind == Operand::Kind::message) {
      s.peer = o.rank;
      if (multicasts(o.rank, o.channel))
        s.receiver = channels_.multicast_receiver(o.rank, multicast_channel(o));
      if (s.receiver == nullptr)
        s.receiver = overview_.one_way ? &channels_.stream_receiver(o.rank, o.channel)
                                       : &channels_.receiver(o.rank, o.channel);
      return s;
    }
    std::tie(s.base, s.owner) = base(o);
    s.offset = offset(o);
    s.segment_stride = segment_stride(o);
    return s;
  }

  void lower_sinks(const Step& step, Instruction& out) {
    std::vector<int> multicast;  // channels that already have their one sink
    for (const Operand& o : step.sinks) {
      Sink s;
      if (o.kind == Operand::Kind::message) {
        if (std::find(multicast.begin(), multicast.end(), o.channel) != multicast.end()) continue;
        if (multicasts(rank_, o.channel)) s.sender = channels_.multicast_sender(multicast_channel(o));
        if (s.sender != nullptr) {
          multicast.push_back(o.channel);
        } else {
          s.sender = overview_.one_way ? &channels_.stream_sender(o.rank, o.channel)
                                       : &channels_.sender(o.rank, o.channel);
          s.peer = o.rank;
        }
      } else {
        std::tie(s.base, s.owner) = base(o);
        s.offset = offset(o);
        s.segment_stride = segment_stride(o);
        if (o.space == Space::output && shape_bytes() >= stream_from(step) && out.sinks < 64)
          out.streaming_sinks |= std::uint64_t{1} << out.sinks;
      }
      program_.sinks.push_back(s);
      ++out.sinks;
    }
  }

  [[nodiscard]] std::size_t stream_from(const Step& step) const {
    const bool receives = step.sources.size() == 1 && step.sources[0].kind == Operand::Kind::message;
    return receives ? std::min(settings_.stream_from, settings_.stream_received_from) : settings_.stream_from;
  }

  [[nodiscard]] std::size_t shape_bytes() const {
    if (shape_.divisible) return shape_.total;
    std::size_t in = 0, out = 0;
    for (const auto& e : shape_.input) in += e.bytes;
    for (const auto& e : shape_.output) out += e.bytes;
    return std::max(in, out);
  }

  [[nodiscard]] bool of_peer(const Operand& o) const { return o.rank >= 0 && o.rank != rank_; }

  [[nodiscard]] std::pair<Base, Rank> base(const Operand& o) const {
    const bool own = !of_peer(o);
    switch (o.space) {
      case Space::input:
        return {own ? Base::input : Base::peer_input, own ? -1 : o.rank};
      case Space::output:
        return {own ? Base::output : Base::peer_output, own ? -1 : o.rank};
      case Space::scratch:
        break;
    }
    assert(own && "scratch of another rank is not reachable");
    return {Base::scratch, -1};
  }

  [[nodiscard]] std::uint64_t segment_stride(const Operand& o) const {
    if (o.count <= 1) return 0;
    if (o.space == Space::scratch) return scratch_chunk_;
    return shape_.divisible ? chunk_ : extent(o).bytes;
  }

  [[nodiscard]] bool multicasts(Rank from, int channel) const {
    return channels_.multicasts() &&
           overview_
               .multicasts[static_cast<std::size_t>(from) * max_channels + static_cast<std::size_t>(channel)];
  }

  [[nodiscard]] int multicast_channel(const Operand& message) const {
    return overview_.lone_multicast ? transport::lone_channel : message.channel;
  }

  // In place, a step like out[r] = in[r] of an all_gather copies memory to itself: drop that sink.
  bool self_copy(const Step& step, Instruction& out) {
    if (!settings_.in_place || out.sources != 1 || program_.sources[out.first_source].receiver != nullptr)
      return false;
    const Operand& from = step.sources[0];
    if (from.space != Space::input || of_peer(from)) return false;
    const std::uint64_t at = in_place_offset(from);
    for (std::uint32_t i = 0; i < out.sinks; ++i) {
      const Sink& sink = program_.sinks[out.first_sink + i];
      if (sink.sender != nullptr || sink.base != Base::output || in_output(sink) != at) continue;
      program_.sinks.erase(program_.sinks.begin() + out.first_sink + i);
      out.streaming_sinks = 0;
      --out.sinks;
      break;
    }
    return out.sinks == 0;
  }
  // Places in the memory that input and output share: the larger of both.
  [[nodiscard]] std::uint64_t in_place_offset(const Operand& from) const {
    const bool input_is_part =
        schedule_.collective == Collective::all_gather || schedule_.collective == Collective::gather;
    return offset(from) + (input_is_part ? shape_.output[static_cast<std::size_t>(rank_)].offset : 0);
  }
  [[nodiscard]] std::uint64_t in_output(const Sink& sink) const {
    const bool output_is_part =
        schedule_.collective == Collective::reduce_scatter || schedule_.collective == Collective::scatter;
    return sink.offset + (output_is_part ? shape_.input[static_cast<std::size_t>(rank_)].offset : 0);
  }

  [[nodiscard]] Instruction::Kind kind(const Instruction& i) const {
    if (i.sources != 1 || i.segments != 1 || i.completes) return Instruction::Kind::fold;
    const Source& source = program_.sources[i.first_source];
    const Sink* sinks = program_.sinks.data() + i.first_sink;
    const bool local = source.receiver == nullptr && source.owner < 0;
    const bool messages =
        std::all_of(sinks, sinks + i.sinks, [](const Sink& s) { return s.sender != nullptr; });
    if (local && messages && (i.sinks == 1 || !settings_.whole_steps)) return Instruction::Kind::send;
    if (local && i.sinks == 1 && !messages && sinks->owner < 0) return Instruction::Kind::copy;
    if (source.receiver != nullptr && i.sinks == 1 && !messages && sinks->owner < 0 && i.streaming_sinks == 0)
      return Instruction::Kind::receive;
    return Instruction::Kind::fold;
  }

  const Schedule& schedule_;
  const Overview& overview_;
  Rank rank_;
  const Shape& shape_;
  const LowerSettings& settings_;
  Channels& channels_;
  Program program_;
  std::vector<std::vector<Part>> whole_sends_, whole_receives_;  ///< lanes
  bool in_old_room_ = true;                                      ///< lanes still hold what they did before
  std::vector<std::vector<ChunkRange>> ranges_;
  std::size_t chunk_ = 0, scratch_chunk_ = 0, origin_ = 0, part_total_ = 0;
  std::uint64_t scratch_origin_ = 0;
};

}  // namespace

std::vector<Shape::Extent> equal_blocks(std::size_t bytes, int count) {
  std::vector<Shape::Extent> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back({static_cast<std::size_t>(i) * bytes, bytes});
  return blocks;
}

std::size_t chunk_bytes(std::size_t total, std::size_t chunks, std::size_t element_bytes) {
  return round_up((total + chunks - 1) / chunks, total >= chunks * align ? align : element_bytes);
}

Program lower(const Schedule& schedule, const Overview& overview, Rank rank, const Shape& shape,
              const LowerSettings& settings, Channels& channels, Program room) {
  return Lowering(schedule, overview, rank, shape, settings, channels, std::move(room)).run();
}

}  // namespace tutti::execution
