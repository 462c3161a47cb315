#include "nccl/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/file_descriptor.hpp"

namespace tutti::nccl {

namespace {

struct Log {
  std::mutex mutex;
  Level level = Level::none;
  std::FILE* file = nullptr;  ///< nullptr: standard output
};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

Level level_of(const char* text) {
  if (text == nullptr) return Level::none;
  if (::strcasecmp(text, "VERSION") == 0) return Level::version;
  if (::strcasecmp(text, "WARN") == 0) return Level::warn;
  if (::strcasecmp(text, "INFO") == 0 || ::strcasecmp(text, "TRACE") == 0 || ::strcasecmp(text, "ABORT") == 0)
    return Level::info;
  return Level::none;
}

std::string file_name(std::string_view pattern) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size())
      name += pattern[i];
    else if (const char what = pattern[++i]; what == 'h')
      name += host_name();
    else if (what == 'p')
      name += std::to_string(::getpid());
    else
      name += what;
  }
  return name;
}

/// nullptr where it cannot be opened, as a FIFO that nobody reads: to wait for who does might be for ever.
std::FILE* open_for_lines(const char* name) {
  constexpr mode_t less_umask = 0666;
  FileDescriptor opened(
      ::open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, less_umask));
  if (!opened || ::fcntl(opened.get(), F_SETFL, 0) != 0) return nullptr;
  std::FILE* const file = ::fdopen(opened.get(), "w");
  if (file != nullptr) static_cast<void>(opened.release());  // the file's
  return file;
}

void read_environment(Log& log) {
  log.level = level_of(std::getenv("NCCL_DEBUG"));
  if (log.file != nullptr) std::fclose(log.file);
  log.file = nullptr;
  if (const char* pattern = std::getenv("NCCL_DEBUG_FILE"); pattern != nullptr && log.level > Level::version)
    log.file = open_for_lines(file_name(pattern).c_str());
}

Log& the_log() {
  // Never destroyed: threads may still write while static objects go.
  static auto* const log = [] {
    auto* made = new Log;
    read_environment(*made);
    return made;
  }();
  return *log;
}

}  // namespace

void reset_log() {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  read_environment(log);
}

void log(Level level, int device, std::string_view text) noexcept {
  try {
    Log& log = the_log();
    const std::scoped_lock lock(log.mutex);
    if (level > log.level) return;
    const std::string line =
        level == Level::version
            ? fmt::format("{}\n", text)
            : fmt::format("{}:{}:{} [{}] NCCL {} {}\n", host_name(), ::getpid(), ::syscall(SYS_gettid),
                          device, level == Level::warn ? "WARN" : "INFO", text);
    std::FILE* const to = log.file != nullptr ? log.file : stdout;
    std::fputs(line.c_str(), to);
    std::fflush(to);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a line of the log
  }
}

}  // namespace tutti::nccl
