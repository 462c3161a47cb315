#include "gpu/norm_program.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "gpu/device/executor.hpp"
#include "gpu/parts.hpp"

namespace tutti::gpu {

namespace {

using device::Operand;
using device::Place;

constexpr int addends_channel = 0, sums_channel = 1;

Operand memory(Place place, std::size_t offset, int buffer = -1) {
  return {.place = place, .rank = buffer, .offset = offset};
}
Operand message(Rank peer, int channel) {
  return {.place = Place::message, .channel = static_cast<std::uint8_t>(channel), .rank = peer};
}

class Builder {
 public:
  Builder(const NormShape& shape, const device::Arena& arena) : shape_(shape) {
    const std::size_t pieces =
        std::max<std::size_t>((shape.row_bytes + arena.slot_bytes - 1) / arena.slot_bytes, 1);
    piece_ = ((shape.row_bytes + pieces - 1) / pieces + 15) / 16 * 16;
    const std::size_t rows = rows_an_iteration(), iterations = (shape.tokens + rows - 1) / rows;
    const auto most = std::min<std::size_t>(arena.slot_slices, static_cast<std::size_t>(shape.blocks));
    to_.header.slices = static_cast<std::uint32_t>(std::clamp<std::size_t>(iterations, 1, most));
    to_.header.stride = rows * shape.row_bytes;
    to_.header.type = shape.type;
    to_.header.op = ReduceOp::sum;
  }

  std::vector<std::byte> build() {
    if (shape_.two_shot) {
      // Row i of every n is rank i's; the last rows have fewer owners.
      const std::size_t n = rows_an_iteration(), whole = shape_.tokens / n, rest = shape_.tokens % n;
      if (whole != 0) part(whole, 0, [&] { two_shots(0, static_cast<int>(n)); });
      if (rest != 0) part(1, whole, [&] { two_shots(whole * n * shape_.row_bytes, static_cast<int>(rest)); });
    } else {
      part(shape_.tokens, 0, [&] { one_shot(); });
    }
    to_.lanes.push_back({0, static_cast<std::uint32_t>(to_.parts.size())});
    return pack(to_);
  }

 private:
  [[nodiscard]] std::size_t rows_an_iteration() const {
    return shape_.two_shot ? static_cast<std::size_t>(shape_.ranks) : 1;
  }

  void part(std::uint64_t iterations, std::uint64_t first, const std::function<void()>& steps) {
    const auto begin = static_cast<std::uint32_t>(to_.instructions.size());
    steps();
    to_.parts.push_back(
        {iterations, first, begin, static_cast<std::uint32_t>(to_.instructions.size()) - begin});
  }

  // Both ends of a message belong to steps of one piece, which their tags tell.
  device::Instruction& step(const std::vector<Operand>& sources, const std::vector<Operand>& sinks,
                            std::size_t bytes, std::size_t at) {
    device::Instruction i;
    i.bytes = bytes;
    i.first_source = static_cast<std::uint32_t>(to_.operands.size());
    to_.operands.insert(to_.operands.end(), sources.begin(), sources.end());
    i.first_sink = static_cast<std::uint32_t>(to_.operands.size());
    to_.operands.insert(to_.operands.end(), sinks.begin(), sinks.end());
    i.sources = static_cast<std::uint16_t>(sources.size());
    i.sinks = static_cast<std::uint16_t>(sinks.size());
    i.salt = static_cast<std::uint32_t>(at);
    i.whole = true;
    return to_.instructions.emplace_back(i);
  }

  // Calls f(offset in the row, bytes) for what a message holds.
  template <class F>
  void for_pieces(const F& f) const {
    for (std::size_t at = 0; at < shape_.row_bytes; at += piece_)
      f(at, std::min(piece_, shape_.row_bytes - at));
  }

  [[nodiscard]] std::vector<Operand> to_others(int channel) const {
    std::vector<Operand> messages;
    for (Rank r = 0; r < shape_.ranks; ++r)
      if (r != shape_.rank) messages.push_back(message(r, channel));
    return messages;
  }

  // The sum of everybody's addends in rank order and the residual: one rounding.
  [[nodiscard]] std::vector<Operand> addends(std::size_t offset) const {
    std::vector<Operand> sources;
    sources.reserve(static_cast<std::size_t>(shape_.ranks) + 1);
    for (Rank r = 0; r < shape_.ranks; ++r)
      sources.push_back(r == shape_.rank ? memory(Place::input, offset) : message(r, addends_channel));
    sources.push_back(memory(Place::buffer, offset, device::residual_buffer));
    return sources;
  }

  void normalize(std::size_t row) {
    step({memory(Place::output, row)}, {memory(Place::buffer, row, device::normalized_buffer)},
         shape_.row_bytes, 0)
        .normalizes = true;
  }

  void one_shot() {
    for_pieces([&](std::size_t at, std::size_t bytes) {
      if (shape_.ranks > 1) step({memory(Place::input, at)}, to_others(addends_channel), bytes, at);
      step(addends(at), {memory(Place::output, at)}, bytes, at);
    });
    normalize(0);
  }

  // `begin`: bytes before the first row; `owners`: rows, one a rank.
  void two_shots(std::size_t begin, int owners) {
    const auto row = [&](Rank owner) { return begin + static_cast<std::size_t>(owner) * shape_.row_bytes; };
    for_pieces([&](std::size_t at, std::size_t bytes) {
      for (Rank owner = 0; owner < owners; ++owner)
        if (owner != shape_.rank)
          step({memory(Place::input, row(owner) + at)}, {message(owner, addends_channel)}, bytes, at);
      if (shape_.rank < owners) {
        auto sinks = to_others(sums_channel);
        sinks.push_back(memory(Place::output, row(shape_.rank) + at));
        step(addends(row(shape_.rank) + at), sinks, bytes, at);
      }
      for (Rank owner = 0; owner < owners; ++owner)
        if (owner != shape_.rank)
          step({message(owner, sums_channel)}, {memory(Place::output, row(owner) + at)}, bytes, at);
    });
    for (Rank owner = 0; owner < owners; ++owner) normalize(row(owner));
  }

  const NormShape& shape_;
  std::size_t piece_;
  Parts to_;
};

}  // namespace

std::vector<std::byte> norm_program(const NormShape& shape, const device::Arena& arena) {
  return Builder(shape, arena).build();
}

}  // namespace tutti::gpu
