/// \file
/// The subcommands of tutti-topo. Each adds itself to the command line, and sets `chosen` when it is there.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>

namespace tutti::topo {

/// What a whole command line asks for: prints to stdout.
using Command = std::function<void()>;

/// `show [TOPOLOGY]`: the tree, each GPU's ports, the path between any two.
void add_show(CLI::App& app, Command& chosen);
/// `export [TOPOLOGY] --format json|nccl|svg`
void add_export(CLI::App& app, Command& chosen);
/// `paths A B [--topology TOPOLOGY]`
void add_paths(CLI::App& app, Command& chosen);
/// `means A B [--topology TOPOLOGY] [--nodes N] [--ranks R] [--memory cpu|gpu]`: how two ranks talk, and why.
void add_means(CLI::App& app, Command& chosen);

/// `world [--gpus]`: under a launcher, where all ranks are and by what means they talk.
void add_world(CLI::App& app, Command& chosen);

/// `explain OPERATION BYTES [--topology TOPOLOGY] [--nodes N] [--ranks R] [--json]`: transports and schedule,
/// and why no others.
void add_explain(CLI::App& app, Command& chosen);

/// What a TOPOLOGY may be, for --help.
std::string help_on_topologies();

}  // namespace tutti::topo
