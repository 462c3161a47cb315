/// tutti-topo: machines as tutti sees them, of this kind and of others. `tutti-topo --help` says how.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <variant>

#include "command_line.hpp"
#include "run_tool.hpp"
#include "topo/commands.hpp"

int main(int argc, char** argv) {
  return tutti::run_tool("tutti-topo", [&] {
    CLI::App app("Shows machines as tutti sees them: this one, those in files, and well-known ones.");
    app.require_subcommand(1);
    tutti::topo::Command chosen;
    for (const auto add : {tutti::topo::add_show, tutti::topo::add_export, tutti::topo::add_paths,
                           tutti::topo::add_means, tutti::topo::add_world, tutti::topo::add_explain})
      add(app, chosen);
    const auto command = tutti::settings_or_end(app, chosen, [&] { app.parse(argc, argv); });
    if (const int* status = std::get_if<int>(&command)) return *status;
    std::get<tutti::topo::Command>(command)();
    return EXIT_SUCCESS;
  });
}
