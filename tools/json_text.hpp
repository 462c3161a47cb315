/// \file
/// JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tutti {

/// On lines that are indented; without `indent` on one. The names of hosts, interfaces and variables' values
/// may have any bytes, JSON only those of UTF-8: a mark takes the place of others, rather than that all that
/// was found out is lost.
inline std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tutti
