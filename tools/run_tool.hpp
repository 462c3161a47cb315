/// \file
/// How a tool ends.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <tutti/types.hpp>

#include "output_file.hpp"
#include "standard_descriptors.hpp"

namespace tutti {

/// What passes after a message that said why.
struct Printed {};

/// What `work` returns, which a rank does. What it throws is printed in the rank's name, since all ranks may
/// print to one terminal, and before anything else ends: others who learn of it may have this process ended.
/// Throws Printed.
template <class Work>
auto printing_as(const char* tool, Rank rank, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: rank %d: %s\n", tool, rank, error.what());
    throw Printed();
  }
}

/// The exit status that `work` returns; EXIT_FAILURE after a message when it throws, or when what it printed
/// is lost: on a full disk, say, which often shows only when the last of it is written.
template <class Work>
int run_tool(const char* tool, Work work) {
  try {
    keep_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead, which is told, and leaves no half of a file
    const int status = work();
    require_standard_output();
    return status;
  } catch (const Printed&) {
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", tool, error.what());  // fmt::print throws where that is lost, too
    return EXIT_FAILURE;
  }
}

}  // namespace tutti
