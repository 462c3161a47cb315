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

const Algorithm* algorithm_named(std::string_view collective, std::string_view algorithm) {
  for (const Algorithm& one : algorithms())
    if (name(one.collective) == collective && one.name == algorithm) return &one;
  return nullptr;
}

std::string to_text(const Choices& choices) {
  std::string text;
  for (const auto& [key, algorithm] : choices.all())
    text += fmt::format("{} {} {}\n", name(key.first), key.second, algorithm->name);
  return text;
}

Choices choices_from(std::string_view text) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::mismatch, "rank 0 chose " + what + "; do ranks run different versions of tutti?");
  };
  Choices choices;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string collective, called;
    int sizes = 0;
    words >> collective >> sizes >> called;
    const Algorithm* algorithm = algorithm_named(collective, called);
    if (!words || algorithm == nullptr || sizes < 0 || sizes > largest_class)
      refuse("\"" + line + "\", which is unknown here");
    choices.keep(algorithm->collective, sizes, algorithm);
  }
  for (const Algorithm& one : algorithms())
    if (choices.of(one.collective, 0) == nullptr) refuse("nothing for " + std::string(name(one.collective)));
  return choices;
}

}  // namespace tutti::tuning
