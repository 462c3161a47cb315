#include "perf/reduction.hpp"

#include <CLI/CLI.hpp>

#include <tutti/error.hpp>

namespace tutti::perf {

namespace {

/// What `parse` makes of the `text` of an option; its message names the words for which `parse` is not asked,
/// too.
template <class Parse>
auto parse_or_name(const char* option, Parse parse, std::string_view text, const char* more) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw CLI::ValidationError(option, std::string(error.what()) + more);
  }
}

}  // namespace

std::vector<NamedReduction> parse_reductions(std::string_view text) {
  const NamedReduction mulsum{"mulsum", scaled_sum(mulsum_factor)};
  if (text == "mulsum") return {mulsum};
  if (text != "all") {
    const ReduceOp op = parse_or_name("--op", parse_reduce_op, text, " mulsum all");
    return {{std::string(name(op)), op}};
  }
  std::vector<NamedReduction> all;
  for (int i = 0; i < reduce_op_count; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    all.push_back({std::string(name(op)), op});
  }
  all.push_back(mulsum);
  return all;
}

std::vector<DataType> parse_types(std::string_view text) {
  if (text != "all") return {parse_or_name("--datatype", parse_data_type, text, " all")};
  std::vector<DataType> all;
  all.reserve(data_type_count);
  for (int i = 0; i < data_type_count; ++i) all.push_back(static_cast<DataType>(i));
  return all;
}

}  // namespace tutti::perf
