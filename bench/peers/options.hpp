/// \file
/// The command line that all programs share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory.hpp"

namespace CLI {
class App;
}

namespace bench {

struct Options {
  std::string library, variant = "default";  ///< repeated in the output
  std::vector<std::string> points;           ///< "operation:bytes"
  std::vector<std::string> modes{"unchanged", "rewritten"};
  Kind kind;               ///< of buffers
  bool first = false;      ///< instead: the first call of each point, and the next ones
  std::vector<int> cores;  ///< rank r is bound to cores[r % size]; none: not bound
  double seconds = 0.1;    ///< measured a point
};

/// A program's command line: these options, and its own. CLI11 is behind it, since it takes longer to compile
/// than all else of a program.
class CommandLine {
 public:
  /// `options`, and all that is added, are written by `parse`.
  CommandLine(const char* about, Options& options);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  void add_flag(const char* name, bool& value, const char* help);
  /// `choices`: what it may be; none: anything.
  void add(const char* name, std::string& value, const char* help,
           const std::vector<std::string>& choices = {});
  void require(const char* name, std::string& value, const char* help);
  void require(const char* name, int& value, const char* help);
  /// The exit status with which to end at once: after --help, or after a message about what is wrong. Comes
  /// before a library opens anything: none of that gets the descriptor of a standard stream that is closed.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace bench
