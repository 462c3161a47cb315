#include "tuning/choices.hpp"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <sstream>

#include <tutti/error.hpp>

namespace tutti::tuning {

int size_class(std::size_t bytes) { return bytes == 0 ? 0 : static_cast<int>(std::bit_width(bytes - 1)); }

std::size_t largest_of(int size_class) { return std::size_t{1} << static_cast<unsigned>(size_class); }

const Algorithm* Choices::of(Collective collective, std::size_t bytes) const {
  const int wanted = size_class(bytes);
  const auto above = all_.lower_bound({collective, wanted});
  const bool any_above = above != all_.end() && above->first.first == collective;
  const bool any_below = above != all_.begin() && std::prev(above)->first.first == collective;
  if (!any_above && !any_below) return nullptr;
  if (!any_below) return above->second;
  const auto below = std::prev(above);
  const bool nearer_above = any_above && above->first.second - wanted < wanted - below->first.second;
  return nearer_above ? above->second : below->second;
}

std::string to_text(const Choices& choices) {
  std::string text;
  for (const auto& [key, algorithm] : choices.all())
    text += fmt::format("{} {} {}\n", name(key.first), key.second, algorithm->name);
  return text;
}

Choices choices_from(std::string_view text) {
  Choices choices;
  std::istringstream lines{std::string(text)};
  std::string collective, algorithm;
  int sizes = 0;
  while (lines >> collective >> sizes >> algorithm) {
    const Collective which = parse_collective(collective);
    const Algorithm* found = find_algorithm(which, algorithm);
    if (found == nullptr)
      throw Error(
          ErrorCode::mismatch,
          fmt::format("rank 0 chose {} for {}, which is unknown here; do ranks run different versions "
                      "of tutti?",
                      algorithm, collective));
    choices.keep(which, sizes, found);
  }
  return choices;
}

}  // namespace tutti::tuning
