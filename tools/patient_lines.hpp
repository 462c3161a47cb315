/// \file
/// What a rank prints while it works with others.
#pragma once

#include <limits.h>
#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/system_error.hpp"
#include "base/uninterrupted.hpp"
#include "output_file.hpp"

namespace tutti {

/// Whether PIPE_BUF bytes go there without waiting, or never will.
inline bool takes_more(int descriptor) {
  pollfd one{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return uninterrupted([&] { return ::poll(&one, 1, 0); }) != 0;
}

/// Lines for a stream whose reader may pause, a pager's say: the rank goes on, for others wait for it, with
/// deadlines of their own. What is not taken at once is kept, and goes out later.
class PatientLines {
 public:
  explicit PatientLines(std::FILE* to) : to_(to), lines_(::open_memstream(&text_, &size_)) {
    if (lines_ == nullptr) throw_errno("open_memstream");
  }
  PatientLines(const PatientLines&) = delete;
  PatientLines& operator=(const PatientLines&) = delete;
  /// Writes the rest, as `finish`, before a message says why there is no more.
  ~PatientLines() {
    std::fflush(lines_);
    write(size_ - written_);
    std::fclose(lines_);
    std::free(text_);
  }
  /// Where to print.
  [[nodiscard]] std::FILE* lines() const { return lines_; }
  /// Writes what is taken at once. Throws Error(system) where the standard output is lost.
  void push() {
    std::fflush(lines_);
    while (written_ < size_ && takes_more(::fileno(to_)))
      write(std::min<std::size_t>(size_ - written_, PIPE_BUF));
    require_standard_output();
  }
  /// Writes all of it, once others wait no more, however long that takes. Throws as `push`.
  void finish() {
    std::fflush(lines_);
    write(size_ - written_);
    require_standard_output();
  }

 private:
  void write(std::size_t bytes) {
    std::fwrite(text_ + written_, 1, bytes, to_);
    std::fflush(to_);
    written_ += bytes;
  }

  std::FILE* to_;
  char* text_ = nullptr;
  std::size_t size_ = 0, written_ = 0;
  std::FILE* lines_;
};

}  // namespace tutti
