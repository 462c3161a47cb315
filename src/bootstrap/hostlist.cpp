#include "bootstrap/hostlist.hpp"

#include <algorithm>
#include <charconv>

#include <tutti/error.hpp>

namespace tutti::bootstrap {
namespace {

constexpr std::size_t most_entries = 1'000'000;
constexpr std::size_t longest_name = 253;  // of DNS

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              "\"" + std::string(text) + "\" is not one of Slurm's lists: " + std::string(why));
}

void check_length(std::size_t name, std::string_view whole) {
  if (name > longest_name) refuse(whole, "a host's name is too long");
}

std::size_t parse_number(std::string_view digits, std::string_view whole) {
  std::size_t value = 0;
  const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || stop != digits.data() + digits.size()) refuse(whole, "a number was expected");
  return value;
}

/// Pieces between commas that are in no bracket.
std::vector<std::string_view> split(std::string_view text, std::string_view whole) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (depth < 0 || depth > 1 || (i == text.size() && depth != 0)) refuse(whole, "brackets do not match");
    if (i < text.size() && (text[i] != ',' || depth != 0)) continue;
    if (i == begin) refuse(whole, "an entry is empty");
    pieces.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return pieces;
}

/// "01-04,7" as "01" "02" "03" "04" "7".
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view whole) {
  std::vector<std::string> all;
  for (const auto range : split(ranges, whole)) {
    const auto dash = range.find('-');
    const auto low = range.substr(0, dash);
    const auto high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    const auto first = parse_number(low, whole), last = parse_number(high, whole);
    check_length(low.size(), whole);
    if (last < first || last - first >= most_entries - all.size())
      refuse(whole, "a range is empty or too long");
    for (std::size_t i = 0; i <= last - first; ++i) {
      const auto digits = std::to_string(first + i);
      all.push_back(std::string(low.size() > digits.size() ? low.size() - digits.size() : 0, '0') + digits);
    }
  }
  return all;
}

std::size_t length_of_longest(const std::vector<std::string>& names) {
  std::size_t most = 0;
  for (const auto& name : names) most = std::max(most, name.size());
  return most;
}

/// One entry, such as "rack[1-2]node[01-04]".
std::vector<std::string> expand_entry(std::string_view entry, std::string_view whole) {
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const auto open = std::min(entry.find('['), entry.size());
    const auto close = open == entry.size() ? open : entry.find(']');
    const auto middle = open == entry.size() ? std::vector<std::string>{""}
                                             : expand_ranges(entry.substr(open + 1, close - open - 1), whole);
    if (names.size() * middle.size() > most_entries) refuse(whole, "too many hosts");
    std::vector<std::string> longer;
    check_length(length_of_longest(names) + open + length_of_longest(middle), whole);
    for (const auto& name : names)
      for (const auto& part : middle) longer.emplace_back(name).append(entry.substr(0, open)).append(part);
    names = std::move(longer);
    entry.remove_prefix(std::min(close + 1, entry.size()));
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) {
  std::vector<std::string> hosts;
  for (const auto entry : split(list, list)) {
    for (auto& name : expand_entry(entry, list)) hosts.push_back(std::move(name));
    if (hosts.size() > most_entries) refuse(list, "too many hosts");
  }
  return hosts;
}

std::string first_of_hostfile(std::string_view text) {
  constexpr std::string_view between = ", \t\r\n";
  auto begin = text.find_first_not_of(between);
  while (begin != std::string_view::npos && text[begin] == '#')
    begin = text.find_first_not_of(between, std::min(text.find('\n', begin), text.size()));
  if (begin == std::string_view::npos) return "";
  const auto entry = text.substr(begin, text.find_first_of(" \t\r\n*#", begin) - begin);
  return expand_hostlist(entry.substr(0, entry.find_last_not_of(',') + 1)).front();
}

std::vector<int> expand_tasks_per_node(std::string_view text) {
  std::vector<int> tasks;
  for (const auto piece : split(text, text)) {
    const auto open = piece.find("(x");
    const auto count = parse_number(piece.substr(0, open), text);
    std::size_t times = 1;
    if (open != std::string_view::npos) {
      if (!piece.ends_with(')')) refuse(text, "a parenthesis is not closed");
      times = parse_number(piece.substr(open + 2, piece.size() - open - 3), text);
    }
    if (times > most_entries - tasks.size() || count > most_entries) refuse(text, "too many tasks or nodes");
    tasks.insert(tasks.end(), times, static_cast<int>(count));
  }
  return tasks;
}

}  // namespace tutti::bootstrap
