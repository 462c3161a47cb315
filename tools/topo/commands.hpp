/// \file
/// The subcommands of tutti-topo. Each adds itself to the command line, and prints to stdout when it is
/// chosen.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace tutti::topo {

/// `show [TOPOLOGY]`: the tree, each GPU's ports, the path between any two.
void add_show(CLI::App& app);
/// `export [TOPOLOGY] --format json|nccl|svg`
void add_export(CLI::App& app);
/// `paths A B [--topology TOPOLOGY]`
void add_paths(CLI::App& app);
/// `means A B [--topology TOPOLOGY] [--nodes N] [--ranks R] [--memory cpu|gpu]`: how two ranks talk, and why.
void add_means(CLI::App& app);

/// `world [--gpus]`: under a launcher, where all ranks are and by what means they talk.
void add_world(CLI::App& app);

/// `explain OPERATION BYTES [--topology TOPOLOGY] [--nodes N] [--ranks R] [--json]`: transports and schedule,
/// and why no others.
void add_explain(CLI::App& app);

/// What a TOPOLOGY may be, for --help.
std::string help_on_topologies();

}  // namespace tutti::topo
