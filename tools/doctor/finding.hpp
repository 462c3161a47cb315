/// \file
/// What tutti-doctor found out, one statement at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::doctor {

enum class Level : std::uint8_t {
  ok,       ///< as it should be
  note,     ///< worth knowing; nothing to do, or something that only some need
  warning,  ///< works, and would work better otherwise
  error     ///< something that was asked for does not work
};
/// "ok", "note", "warn", "error".
std::string_view name(Level level);

struct Finding {
  std::string area{};  ///< "memory", "network", ...
  Level level = Level::ok;
  std::string what{};                              ///< a sentence without a full stop
  std::string remedy{};                            ///< what to do about it; empty: nothing
  nlohmann::json data = nlohmann::json::object();  ///< the same as values, for programs
  std::string table{};                             ///< lines for people only; programs have `data`
};
using Findings = std::vector<Finding>;

nlohmann::json to_json(const Finding& finding);
nlohmann::json to_json(const Findings& findings);
/// Throws nlohmann::json::exception for what `to_json` did not make.
Finding finding_from(const nlohmann::json& json);
/// The worst level; ok of none.
Level worst(const Findings& findings);

}  // namespace tutti::doctor
