/// \file
/// Command lines, run as a person runs them.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>

namespace tutti::test {

struct Outcome {
  int status = -1;     ///< exit status, or 128 + the number of the signal that ended it
  std::string output;  ///< of both streams
};

/// Runs `command` in a shell, and hands each line of its output to `look` as it comes.
inline Outcome run_command(
    const std::string& command,
    const std::function<void(const std::string&)>& look = [](const std::string&) {}) {
  Outcome outcome;
  std::FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    outcome.output += line.data();
    look(line.data());
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace tutti::test
