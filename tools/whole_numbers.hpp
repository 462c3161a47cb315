/// \file
/// Whole numbers on the command lines of tools and benches. CLI11 takes 010 for 8.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>

namespace tutti {

/// Whether CLI11 would read the number as octal.
inline bool has_leading_zero(std::string_view number) {
  number.remove_prefix(std::min(number.find_first_not_of(" +-"), number.size()));
  return number.size() > 1 && number[0] == '0' && number[1] >= '0' && number[1] <= '9';
}

/// Has all options that are whole numbers, also of subcommands, refuse what CLI11 would read as octal.
inline void take_no_octal_numbers(CLI::App& app) {
  const auto check = [](const std::string& number) {
    return has_leading_zero(number)
               ? "\"" + number + "\" begins with a zero, which could mean octal; leave it out"
               : std::string();
  };
  for (CLI::Option* option : app.get_options())
    if (const std::string type = option->get_type_name(); type.starts_with("INT") || type.starts_with("UINT"))
      option->check(check);
  for (CLI::App* command : app.get_subcommands([](CLI::App* /*any*/) { return true; }))
    take_no_octal_numbers(*command);
}

}  // namespace tutti
