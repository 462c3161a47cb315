/// tutti-topo: machines as tutti sees them, of this kind and of others. `tutti-topo --help` says how.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "command_line.hpp"
#include "run_tool.hpp"
#include "topo/commands.hpp"

int main(int argc, char** argv) {
  return tutti::run_tool("tutti-topo", [&] {
    CLI::App app("Shows machines as tutti sees them: this one, those in files, and well-known ones.");
    app.require_subcommand(1);
    tutti::add_version(app);
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
  });
}
