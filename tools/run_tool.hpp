/// \file
/// How a tool ends.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "output_file.hpp"
#include "standard_descriptors.hpp"

namespace tutti {

/// The exit status that `work` returns; EXIT_FAILURE after a message when it throws, or when what it printed
/// is lost: on a full disk, say, which often shows only when the last of it is written.
template <class Work>
int run_tool(const char* tool, Work work) {
  try {
    keep_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead, which is told, and leaves no half of a file
    const int status = work();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) cannot_write("the standard output");
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", tool, error.what());  // fmt::print throws where that is lost, too
    return EXIT_FAILURE;
  }
}

}  // namespace tutti
