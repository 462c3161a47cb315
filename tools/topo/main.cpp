/// tutti-topo: machines as tutti sees them, of this kind and of others. `tutti-topo --help` says how.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>

#include "exit_status.hpp"
#include "topo/commands.hpp"

int main(int argc, char** argv) {
  try {
    CLI::App app("Shows machines as tutti sees them: this one, those in files, and well-known ones.");
    app.require_subcommand(1);
    tutti::topo::add_show(app);
    tutti::topo::add_export(app);
    tutti::topo::add_paths(app);
    tutti::topo::add_means(app);
    tutti::topo::add_world(app);
    tutti::topo::add_explain(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? EXIT_SUCCESS : tutti::usage_error;
    }
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-topo: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
