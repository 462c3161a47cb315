// The text form of a schedule, read. docs/schedules.md describes it; print.cpp writes it.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <tutti/error.hpp>
#include <tutti/schedule.hpp>

namespace tutti {
namespace {

/// One line of the text and how far it has been read.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text), number_(number) {}

  [[noreturn]] void fail(std::string_view expected) {
    skip_blanks();
    const std::string found =
        rest_.empty() ? "the end of the line" : fmt::format("'{}'", rest_.substr(0, 20));
    throw Error(ErrorCode::invalid_schedule,
                fmt::format("line {}: expected {}, found {}", number_, expected, found));
  }
  /// Also true where only a comment follows.
  bool ended() {
    skip_blanks();
    return rest_.empty() || rest_.front() == '#';
  }
  bool accept(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }
  /// The word that comes next, which stays unread.
  std::string_view peek() {
    skip_blanks();
    std::size_t length = 0;
    while (length < rest_.size() &&
           (std::isalpha(static_cast<unsigned char>(rest_[length])) || rest_[length] == '_')) {
      ++length;
    }
    return rest_.substr(0, length);
  }
  bool accept_word(std::string_view word) {
    if (peek() != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  template <class Integer>
  Integer integer(std::string_view what) {
    skip_blanks();
    Integer value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const bool joined =
        end != rest_.data() + rest_.size() && std::isalpha(static_cast<unsigned char>(*end)) != 0;
    if (error != std::errc() || joined) {
      fail(fmt::format("{} ({} to {})", what, std::numeric_limits<Integer>::min(),
                       std::numeric_limits<Integer>::max()));
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  std::string quoted() {
    std::string value;
    expect('"');
    while (!rest_.empty() && rest_.front() != '"') value += character();
    expect('"');
    return value;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  char character() {
    char c = rest_.front();
    rest_.remove_prefix(1);
    if (c != '\\') return c;
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\\')) {
      c = rest_.front();
      rest_.remove_prefix(1);
      return c;
    }
    unsigned code = 0;
    const bool hex = rest_.size() >= 3 && rest_[0] == 'x';
    if (!hex || std::from_chars(rest_.data() + 1, rest_.data() + 3, code, 16).ptr != rest_.data() + 3) {
      fail("\\\", \\\\ or \\x and two hexadecimal digits");
    }
    rest_.remove_prefix(3);
    return static_cast<char>(code);
  }

  std::string_view rest_;
  int number_;
};

Operand operand(Line& line, std::string_view direction) {
  Operand result;
  if (line.accept_word(direction)) {
    result.kind = Operand::Kind::message;
    result.rank = line.integer<Rank>("a rank");
    if (line.accept('/')) result.channel = line.integer<std::uint16_t>("a channel");
    if (line.accept('*')) result.count = line.integer<std::int32_t>("a number of chunks");
    return result;
  }
  if (line.accept_word("out")) {
    result.space = Space::output;
  } else if (line.accept_word("scratch")) {
    result.space = Space::scratch;
  } else if (!line.accept_word("in")) {
    line.fail(fmt::format("in[...], out[...], scratch[...] or {} RANK", direction));
  }
  line.expect('[');
  result.first = line.integer<std::int32_t>("a chunk");
  if (line.accept(':')) result.count = line.integer<std::int32_t>("a number of chunks");
  line.expect(']');
  if (line.accept('@')) result.rank = line.integer<Rank>("a rank");
  return result;
}

std::vector<Operand> operands(Line& line, char separator, std::string_view direction) {
  std::vector<Operand> result;
  if (line.accept_word("nothing")) return result;
  do {
    result.push_back(operand(line, direction));
  } while (line.accept(separator));
  return result;
}

Step step(Line& line) {
  Step result;
  result.sinks = operands(line, ',', "to");
  line.expect('=');
  result.sources = operands(line, '+', "from");
  result.complete = line.accept_word("complete");
  return result;
}

Collective collective(Line& line) {
  const std::string_view word = line.peek();
  for (int i = 0; i < collective_count; ++i) {
    if (line.accept_word(name(static_cast<Collective>(i)))) return static_cast<Collective>(i);
  }
  line.fail(word.empty() ? "a schedule to begin with its collective" : "the name of a collective");
}

Schedule header(Line& line) {
  Schedule schedule;
  schedule.collective = collective(line);
  schedule.name = line.quoted();
  struct Key {
    std::string_view word, of;
    int& value;
    bool given = false;
  };
  std::array keys{
      Key{"ranks", "a number of ranks", schedule.ranks}, Key{"chunks", "a number of chunks", schedule.chunks},
      Key{"scratch", "a number of chunks", schedule.scratch},
      Key{"credits", "a number of messages", schedule.credits}, Key{"root", "a rank", schedule.root}};
  while (!line.ended()) {
    Line before = line;
    const auto key = std::ranges::find_if(keys, [&](const Key& k) { return line.accept_word(k.word); });
    if (key == keys.end()) line.fail("ranks, chunks, scratch, credits or root");
    if (std::exchange(key->given, true)) before.fail(fmt::format("{} only once", key->word));
    key->value = line.integer<int>(key->of);
  }
  if (!keys[0].given || !keys[1].given) line.fail("ranks N and chunks N");
  return schedule;
}

void expect_number(Line& line, std::string_view what, std::size_t number) {
  Line before = line;
  if (std::cmp_not_equal(line.integer<int>(what), number))
    before.fail(fmt::format("{} {} next", what, number));
}

/// Ranks and lanes must come in order, one by one, so that no number in the text decides how much is
/// allocated.
void body(Line& line, Schedule& schedule) {
  auto& ranks = schedule.lanes;
  if (line.accept_word("rank")) {
    if (std::cmp_greater_equal(ranks.size(), schedule.ranks))
      line.fail(fmt::format("no more than {} ranks", schedule.ranks));
    expect_number(line, "rank", ranks.size());
    ranks.emplace_back();
  } else if (ranks.empty()) {
    line.fail("rank 0");
  } else if (line.accept_word("lane")) {
    expect_number(line, "lane", ranks.back().size());
    ranks.back().emplace_back();
  } else if (ranks.back().empty()) {
    line.fail("lane 0");
  } else {
    ranks.back().back().push_back(step(line));
  }
}

}  // namespace

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  bool begun = false;
  int number = 0;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, length), ++number);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.ended()) continue;
    if (begun) {
      body(line, schedule);
    } else {
      schedule = header(line);
      begun = true;
    }
    if (!line.ended()) line.fail("the end of the line");
  }
  if (!begun) {
    Line nothing(text, std::max(number, 1));
    schedule = header(nothing);  // which says what is missing
  }
  if (std::cmp_not_equal(schedule.lanes.size(), schedule.ranks)) {
    throw Error(ErrorCode::invalid_schedule, fmt::format("line {}: the text ends after {} of {} ranks",
                                                         number, schedule.lanes.size(), schedule.ranks));
  }
  return schedule;
}

}  // namespace tutti
