/// \file
/// What the tools' command lines have in common: sizes and names, and how a tool ends whose command line says
/// so, or is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/options.hpp>
#include <tutti/version.hpp>

#include "exit_status.hpp"
#include "numbers.hpp"

namespace tutti {

/// More than any machine's memory, and little enough for sums and products of sizes not to overflow.
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 44U;

/// Turns "64K" into "65536": bytes, from `least` to `most`. CLI11 alone takes -5 for 2^64 - 5, what is larger
/// than 2^64 for 2^64 - 1, and 010 for 8.
inline CLI::Validator size(std::uint64_t most = most_bytes, std::uint64_t least = 0) {
  return {[most, least, units = CLI::AsSizeValue(false)](std::string& text) -> std::string {
            const std::string given = text;
            try {
              units(text);
            } catch (const CLI::ValidationError&) {
              text.clear();  // versions of CLI11 refuse different ones, each in its own words
            }
            std::uint64_t bytes = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, bytes);
            const bool is_number = read.ec == std::errc() && read.ptr == end && !has_leading_zero(given);
            if (is_number && bytes >= least && bytes <= most) return "";
            return "\"" + given + "\" is no size from " + std::to_string(least) + " to " +
                   std::to_string(most) + " bytes (as 64K or 1M)";
          },
          "SIZE"};
}

/// Throws CLI::ValidationError unless there are sizes from -b to -e, of which one may be a default.
inline void require_sizes_between(std::uint64_t begin, std::uint64_t end) {
  if (begin > end)
    throw CLI::ValidationError(
        "-b", "is larger than -e (" + std::to_string(begin) + " and " + std::to_string(end) + " bytes)");
}

/// `--timeout SECONDS`, for how long a rank waits for others; `timeout` stays as it is where none is given.
inline void add_timeout(CLI::App& app, std::chrono::milliseconds& timeout) {
  const auto set = [&timeout](double seconds) {
    timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
  };
  app.add_option_function<double>("--timeout", set,
                                  "Seconds to wait for other ranks (default: TUTTI_TIMEOUT, else 30)")
      ->check(seconds_between("0.001", "1000000"));
}

/// Reads `options` from the environment, for the command line to override. What is wrong with a variable is
/// returned, to be thrown once the command line is parsed: --help and --version have no need of it.
inline std::exception_ptr read_environment(Options& options) {
  try {
    options = Options::from_environment();
    return nullptr;
  } catch (const Error&) {
    return std::current_exception();
  }
}

/// Has `app` parse what overrides `options` from the environment.
inline void parse_over_environment(CLI::App& app, int argc, const char* const* argv, Options& options) {
  const std::exception_ptr wrong_variable = read_environment(options);
  app.parse(argc, argv);
  if (wrong_variable) std::rethrow_exception(wrong_variable);
}

/// A name that somebody forgot to fill in would write nothing, in silence.
inline CLI::Validator file_name() {
  return {[](std::string& text) { return text.empty() ? std::string("names no file") : std::string(); },
          "FILE"};
}

/// What Options::transport takes, but the empty name.
inline CLI::Validator transport_name() { return CLI::IsMember({"shm", "verbs", "tcp"}); }

inline void add_version(CLI::App& app) {
  app.set_version_flag("--version", "tutti " + std::string(version()));
}

/// What `app` was given and has no use for. An option that it does not have is named first: the value behind
/// that looks like one more argument. CLI11 would list both from behind.
inline std::string unexpected(const CLI::App& app) {
  std::vector<std::string> left = app.remaining(true);
  std::erase(left, "--");  // what ends the options was of use
  const auto option =
      std::ranges::find_if(left, [](const std::string& one) { return one.size() > 1 && one[0] == '-'; });
  if (option != left.end()) return "there is no option " + option->substr(0, option->find('='));
  if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty() && !left.empty())
    return "there is no subcommand \"" + left.front() + "\"";
  return left.empty() ? "too many arguments" : "\"" + left.front() + "\" is one argument too many";
}

/// `settings` as `read` leaves them, which has `app` parse, or the exit status with which to end at once: 0
/// after --help or --version, `usage_error` after a message about options.
template <class Settings, class Read>
std::variant<Settings, int> settings_or_end(CLI::App& app, Settings& settings, Read read) {
  try {
    add_version(app);
    take_no_octal_numbers(app);
    read();
    return std::move(settings);
  } catch (const CLI::ExtrasError&) {
    app.exit(CLI::ValidationError(unexpected(app)));
    return usage_error;
  } catch (const CLI::RequiredError& error) {  // what was mistyped is missed
    if (app.remaining(true).empty())
      app.exit(error);
    else
      app.exit(CLI::ValidationError(unexpected(app)));
    return usage_error;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  } catch (const Error& error) {
    app.exit(CLI::ValidationError(error.what()));
    return usage_error;
  }
}

}  // namespace tutti
