/// \file
/// The algorithms that a command line may force.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "collectives/algorithms.hpp"
#include "communicator/select.hpp"

namespace tutti {

/// Throws CLI::ValidationError unless `operation`, or that of which it is the v-form, has the algorithm
/// `wanted`, for blocks of different sizes where it is one: what is forced by an option is not to be left out
/// in silence.
inline void check_algorithm(std::string_view operation, std::string_view wanted) {
  std::string_view collective = operation;
  const bool uneven = collective.ends_with("_v");
  if (uneven) collective.remove_suffix(2);
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (name(algorithm.collective) != collective || algorithm.one_sided) continue;
    if (uneven && !carries_uneven(algorithm.name)) continue;
    if (algorithm.name == wanted) return;
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  throw CLI::ValidationError(
      "--algorithm", fmt::format("{} has no algorithm \"{}\" that sends messages; it has {}", operation,
                                 wanted, names.empty() ? "none" : names));
}

}  // namespace tutti
