#include "doctor/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "json_text.hpp"

namespace tutti::doctor {

namespace {

/// Words of `text`, broken into lines; all but the first begin with `indent` blanks, which the first has
/// already.
std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t width = 100;
  std::string lines;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word; column += word.size()) {
    if (column > indent && column + 1 + word.size() > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += " ";
      ++column;
    }
    lines += word;
  }
  return lines;
}

void print_finding(std::FILE* to, const Finding& finding) {
  constexpr std::size_t indent = 9, remedy_indent = 12;
  fmt::print(to, "  {:<6} {}\n", name(finding.level), wrapped(finding.what, indent));
  if (!finding.remedy.empty())
    fmt::print(to, "{:{}}-> {}\n", "", indent, wrapped(finding.remedy, remedy_indent));
  std::istringstream table(finding.table);
  for (std::string line; std::getline(table, line);) fmt::print(to, "{:{}}{}\n", "", indent, line);
}

}  // namespace

Level worst(const Report& report) {
  Level level = worst(report.pairs);
  for (const auto& machine : report.machines) level = std::max(level, worst(machine.findings));
  return level;
}

void print_findings(std::FILE* to, const Findings& findings) {
  std::string area;
  for (const Finding& finding : findings) {
    if (finding.area != area) fmt::print(to, "{}\n", finding.area);
    area = finding.area;
    print_finding(to, finding);
  }
  std::fflush(to);
}

void print(std::FILE* to, const MachineReport& report) {
  const auto& ranks = report.machine.ranks;
  fmt::print(to, "== {}: {} {}\n", report.machine.name, ranks.size() == 1 ? "rank" : "ranks",
             fmt::join(ranks, ", "));
  print_findings(to, report.findings);
}

void print_tail(std::FILE* to, const Report& report) {
  std::array<int, 4> count{};
  const auto add = [&](const Findings& findings) {
    for (const Finding& finding : findings) ++count.at(static_cast<std::size_t>(finding.level));
  };
  for (const auto& machine : report.machines) add(machine.findings);
  add(report.pairs);
  fmt::print(to, "{} ok, {} note, {} warn, {} error\n", count[0], count[1], count[2], count[3]);
}

std::string to_json(const Report& report) {
  nlohmann::json json{{"worst", name(worst(report))},
                      {"machines", nlohmann::json::array()},
                      {"pairs", to_json(report.pairs)}};
  for (const auto& [machine, findings] : report.machines)
    json["machines"].push_back(
        {{"name", machine.name}, {"ranks", machine.ranks}, {"findings", to_json(findings)}});
  return json_text(json, 2) + "\n";
}

}  // namespace tutti::doctor
