// The text form of a schedule, written. docs/schedules.md describes it; parse.cpp reads it.
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <tutti/schedule.hpp>

namespace tutti {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result.append(1, '\\').append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

void print(std::string& text, const Operand& operand, std::string_view direction) {
  auto end = std::back_inserter(text);
  if (operand.kind == Operand::Kind::message) {
    fmt::format_to(end, "{} {}", direction, operand.rank);
    if (operand.channel != 0) fmt::format_to(end, "/{}", operand.channel);
    if (operand.count != 1) fmt::format_to(end, "*{}", operand.count);
    return;
  }
  const std::string_view space = operand.space == Space::input    ? "in"
                                 : operand.space == Space::output ? "out"
                                                                  : "scratch";
  fmt::format_to(end, "{}[{}", space, operand.first);
  if (operand.count != 1) fmt::format_to(end, ":{}", operand.count);
  text += ']';
  if (operand.rank != -1) fmt::format_to(end, "@{}", operand.rank);
}

void print(std::string& text, const std::vector<Operand>& operands, std::string_view separator,
           std::string_view direction) {
  if (operands.empty()) text += "nothing";
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) text += separator;
    print(text, operands[i], direction);
  }
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::string text = fmt::format("{} {} ranks {} chunks {} scratch {} credits {} root {}\n",
                                 name(schedule.collective), quoted(schedule.name), schedule.ranks,
                                 schedule.chunks, schedule.scratch, schedule.credits, schedule.root);
  for (std::size_t rank = 0; rank < schedule.lanes.size(); ++rank) {
    text += fmt::format("rank {}\n", rank);
    for (std::size_t lane = 0; lane < schedule.lanes[rank].size(); ++lane) {
      text += fmt::format("  lane {}\n", lane);
      for (const Step& step : schedule.lanes[rank][lane]) {
        text += "    ";
        print(text, step.sinks, ", ", "to");
        text += " = ";
        print(text, step.sources, " + ", "from");
        text += step.complete ? " complete\n" : "\n";
      }
    }
  }
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Schedule& schedule) {
  return stream << to_text(schedule);
}

}  // namespace tutti
