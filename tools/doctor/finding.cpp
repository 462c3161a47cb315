#include "doctor/finding.hpp"

#include <algorithm>
#include <array>

namespace tutti::doctor {

namespace {

constexpr std::array<std::string_view, 4> level_names{"ok", "note", "warn", "error"};

}  // namespace

std::string_view name(Level level) { return level_names.at(static_cast<std::size_t>(level)); }

nlohmann::json to_json(const Finding& finding) {
  return {{"area", finding.area},
          {"level", name(finding.level)},
          {"what", finding.what},
          {"remedy", finding.remedy},
          {"data", finding.data}};
}

nlohmann::json to_json(const Findings& findings) {
  nlohmann::json json = nlohmann::json::array();
  for (const Finding& finding : findings) json.push_back(to_json(finding));
  return json;
}

Finding finding_from(const nlohmann::json& json) {
  Finding finding{.area = json.at("area"), .what = json.at("what"), .remedy = json.at("remedy")};
  const auto* const found = std::ranges::find(level_names, json.at("level").get<std::string>());
  finding.level = found == level_names.end() ? Level::error : static_cast<Level>(found - level_names.begin());
  finding.data = json.at("data");
  return finding;
}

Level worst(const Findings& findings) {
  Level level = Level::ok;
  for (const Finding& finding : findings) level = std::max(level, finding.level);
  return level;
}

}  // namespace tutti::doctor
