/// \file
/// Environment variables as numbers. An empty variable counts as unset.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::bootstrap {

std::optional<std::string> variable(const char* name);

/// Throws Error(invalid_argument) "NAME=value: expected <expected>".
[[noreturn]] void refuse_variable(const char* name, std::string_view expected);

/// Throws Error(invalid_argument) naming the variable and its value unless it is a whole number in [low,
/// high].
std::optional<int> number(const char* name, int low = 0, int high = std::numeric_limits<int>::max());

/// What tells a job or a step from others: Slurm's go beyond int, 4294967290 is that of an interactive step.
/// 0 when unset.
std::uint64_t id_number(const char* name);

/// As `number`, of a variable that must be set because `because` is.
int required_number(const char* name, const char* because, int low = 0,
                    int high = std::numeric_limits<int>::max());

/// TUTTI_PORT, or `otherwise`.
int port_or(int otherwise);

}  // namespace tutti::bootstrap
