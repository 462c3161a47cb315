/// \file
/// The reductions of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tutti/types.hpp>

namespace tutti::perf {

/// A reduction under the name by which it is asked for and reported.
struct NamedReduction {
  std::string name;
  Reduction reduction;
};

/// tutti's and nccl-tests' spellings; "mulsum" is the sum of everything times `mulsum_factor`; "all" is every
/// one. Throws CLI::ValidationError.
std::vector<NamedReduction> parse_reductions(std::string_view text);
std::vector<DataType> parse_types(std::string_view text);

inline constexpr int mulsum_factor = 2;

}  // namespace tutti::perf
