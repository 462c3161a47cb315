/// \file
/// How a tool ends whose command line says so, or is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include <tutti/error.hpp>

#include "exit_status.hpp"

namespace tutti {

/// Runs `read`, which has `app` parse, and looks at what came of it. The exit status with which to end at
/// once, if there is one: 0 after --help, `usage_error` after a message about options.
template <class Read>
std::optional<int> end_of(CLI::App& app, Read read) {
  try {
    read();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  } catch (const Error& error) {
    app.exit(CLI::ValidationError(error.what()));
    return usage_error;
  }
}

}  // namespace tutti
