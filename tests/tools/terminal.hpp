/// \file
/// Command lines, run on a terminal.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "command.hpp"

namespace tutti::test {

/// Runs `command` in a shell whose streams are a terminal of its own, and has `look` see all that was written
/// whenever more comes; killed after a minute.
inline Outcome run_on_terminal(
    const std::string& command,
    const std::function<void(const std::string&)>& look = [](const std::string&) {}) {
  Outcome outcome;
  int terminal = -1;
  const pid_t shell = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (shell < 0) return outcome;
  if (shell == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::array<char, 4096> some{};
  for (pollfd ready{.fd = terminal, .events = POLLIN, .revents = 0}; ::poll(&ready, 1, 1000) >= 0;) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(shell, SIGKILL);
      break;
    }
    if (ready.revents == 0) continue;
    const ssize_t length = ::read(terminal, some.data(), some.size());
    if (length <= 0) break;  // EIO: nobody has the terminal open any more
    outcome.output.append(some.data(), static_cast<std::size_t>(length));
    look(outcome.output);
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(shell, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

/// What a person sees there in the end.
inline std::string screen_of(std::string_view written) {
  constexpr std::string_view erase_to_end_of_line = "\033[K";
  std::string screen, line;
  std::size_t column = 0;
  while (!written.empty()) {
    if (written.starts_with(erase_to_end_of_line)) {
      line.resize(column);
      written.remove_prefix(erase_to_end_of_line.size());
      continue;
    }
    const char next = written.front();
    written.remove_prefix(1);
    if (next == '\r') {
      column = 0;
    } else if (next == '\n') {
      screen += std::exchange(line, "") + '\n';
      column = 0;
    } else {
      line.resize(std::max(line.size(), column + 1));
      line[column++] = next;
    }
  }
  return screen + line;
}

}  // namespace tutti::test
