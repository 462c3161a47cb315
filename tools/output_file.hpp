/// \file
/// Files of results.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "base/system_error.hpp"
#include "base/uninterrupted.hpp"

namespace tutti {

[[noreturn]] inline void cannot_write(const std::string& file) {
  throw Error(ErrorCode::system, "cannot write " + file);
}

/// Throws where what was printed is lost: on a full disk, say.
inline void require_standard_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) cannot_write("the standard output");
}

/// Where words go beside results: not among those that "-" sends to the standard output.
inline std::FILE* words_beside(const std::string& file) { return file == "-" ? stderr : stdout; }

/// What the links lead to that `file` may be, whether that is there or not.
inline std::filesystem::path behind_links(std::filesystem::path file) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;  // as Linux
  std::error_code none;
  for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(file, none)); ++i)
    file = file.parent_path() / fs::read_symlink(file, none);
  return file;
}

/// "-", and any name of what is the standard output.
inline bool leads_to_standard_output(const std::string& file) {
  struct stat named = {}, printed = {};
  return file == "-" || (::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &printed) == 0 &&
                         named.st_dev == printed.st_dev && named.st_ino == printed.st_ino);
}

/// Whether what is written to one takes the place of what is written to the other, or both come as one.
/// Either may still have to be made.
inline bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (a == b || (leads_to_standard_output(a) && leads_to_standard_output(b))) return true;
  if (a == "-" || b == "-") return false;
  std::error_code none, failed;
  if (fs::equivalent(a, b, none)) return true;  // also by names of one file that are no links
  const auto place = [&](const std::string& file) {
    const fs::path whole = fs::absolute(behind_links(file), failed);
    return failed ? whole : fs::weakly_canonical(whole, failed);
  };
  const fs::path place_of_a = place(a);
  return !failed && place_of_a == place(b) && !failed;
}

/// Made before the work that takes long, so that it fails soon. A file is made, or changes, only once all of
/// the text is written: the work may fail or end by a signal, and the disk may be full. What is no regular
/// file, a FIFO say, stays open from the start. That somebody reads it is waited for, but not for ever; who
/// does, as `less` in `>(less)`, may pause, as who reads the standard output.
class OutputFile {
 public:
  /// "-", and any name of what is the standard output: that, behind what was printed. Throws Error(system)
  /// unless `file` can be written; `patience`: for a FIFO's reader to come.
  explicit OutputFile(std::string file, std::chrono::milliseconds patience = std::chrono::seconds(20))
      : file_(std::move(file)), target_(behind_links(file_)) {
    namespace fs = std::filesystem;
    if (is_standard_output()) return;
    std::error_code none;
    const fs::file_status before = fs::status(file_, none);
    const bool is_new = !fs::exists(before);
    is_file_ = is_new || fs::is_regular_file(before);
    stream_ = open(patience);
    if (is_file_) stream_.reset();
    if (is_new && fs::is_empty(target_, none)) fs::remove(target_, none);  // else another wrote it meanwhile
  }

  [[nodiscard]] bool is_standard_output() const { return leads_to_standard_output(file_); }

  /// All of it. Throws Error(system).
  void write(const std::string& text) {
    std::fflush(stdout);  // what was printed may go to the same terminal
    if (is_file_)
      write_file(text);
    else if (!stream_)
      std::fwrite(text.data(), 1, text.size(), stdout);  // what is lost there, run_tool notices
    else
      write_stream(text);
  }

 private:
  /// To open a FIFO in another way would wait for its reader, for ever.
  [[nodiscard]] FileDescriptor open(std::chrono::milliseconds patience) const {
    constexpr mode_t less_umask = 0666;
    constexpr std::chrono::milliseconds pause{10};
    for (const Deadline deadline(patience);; std::this_thread::sleep_for(pause)) {
      FileDescriptor opened(::open(
          file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, less_umask));
      if (opened) return opened;
      const int why_not = errno;
      std::error_code none;
      if (why_not == EINTR) continue;
      if (why_not != ENXIO || !std::filesystem::is_fifo(file_, none))
        throw_errno("cannot write " + file_, why_not);
      if (deadline.passed())
        throw Error(ErrorCode::system, "cannot write " + file_ + ": it is a FIFO that nobody reads");
    }
  }

  void write_stream(std::string_view text) const {
    while (!text.empty()) {
      pollfd one{stream_.get(), POLLOUT, 0};
      uninterrupted([&] { return ::poll(&one, 1, -1); });
      const auto written = uninterrupted([&] { return ::write(stream_.get(), text.data(), text.size()); });
      if (written < 0 && errno != EAGAIN) throw_errno("cannot write " + file_);
      text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  }

  void write_file(const std::string& text) const {
    if (may_be_replaced() && replace(text)) return;
    std::ofstream stream(file_);
    if (!(stream << text).flush()) cannot_write(file_);
  }

  /// Not what has another name or owner, or is known by a descriptor.
  [[nodiscard]] bool may_be_replaced() const {
    if (file_.starts_with("/dev/") || file_.starts_with("/proc/")) return false;
    struct stat there = {};
    if (::lstat(target_.c_str(), &there) != 0) return errno == ENOENT;
    return S_ISREG(there.st_mode) && there.st_nlink == 1 && there.st_uid == ::geteuid();
  }

  /// False where nothing can take its place: its folder takes no other file, or it is mounted.
  [[nodiscard]] bool replace(const std::string& text) const {
    namespace fs = std::filesystem;
    std::error_code none, failed;
    fs::path draft = target_.string() + ".new";
    std::FILE* made = std::fopen(draft.c_str(), "wxe");
    // Others may be writing to the same file, on other hosts, too, and some have been killed at it.
    constexpr int most_drafts = 1000;
    for (int others = 1; made == nullptr && errno == EEXIST && others < most_drafts; ++others) {
      draft = target_.string() + ".new" + std::to_string(others);
      made = std::fopen(draft.c_str(), "wxe");
    }
    if (made == nullptr) return false;
    if (const fs::file_status before = fs::status(target_, none); fs::exists(before))
      fs::permissions(draft, before.permissions(), none);
    const bool whole = std::fwrite(text.data(), 1, text.size(), made) == text.size();
    if (std::fclose(made) != 0 || !whole) {
      fs::remove(draft, none);
      cannot_write(file_);
    }
    fs::rename(draft, target_, failed);
    if (failed) fs::remove(draft, none);
    return !failed;
  }

  std::string file_;
  std::filesystem::path target_;
  bool is_file_ = false;   ///< a regular one, or to be made
  FileDescriptor stream_;  ///< to anything else but the standard output
};

}  // namespace tutti
