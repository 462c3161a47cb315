/// \file
/// Numbers on the command lines of tools and benches. CLI11 takes 010 for 8, and "nan" for in any range.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "leading_zero.hpp"

namespace tutti {

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

/// `what`: "number", or of what.
inline CLI::Validator number_between(const std::string& least, const std::string& most,
                                     const std::string& what = "number", const std::string& type = "") {
  return {[=](std::string& text) {
            const double number = std::strtod(text.c_str(), nullptr);  // what follows CLI11 refuses
            return number >= std::stod(least) && number <= std::stod(most)
                       ? std::string()
                       : "\"" + text + "\" is no " + what + " from " + least + " to " + most;
          },
          type};
}

inline CLI::Validator seconds_between(const std::string& least, const std::string& most) {
  return number_between(least, most, "number of seconds", "SECONDS");
}

}  // namespace tutti
