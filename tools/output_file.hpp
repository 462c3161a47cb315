/// \file
/// Files of results.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <tutti/error.hpp>

namespace tutti {

[[noreturn]] inline void cannot_write(const std::string& file) {
  throw Error(ErrorCode::system, "cannot write " + file);
}

/// Made before the work that takes long, so that it fails soon. A file that was not there before is there
/// only once it is written: the work may fail, or end by a signal.
class OutputFile {
 public:
  /// Throws Error(system) unless `file` can be written.
  explicit OutputFile(std::string file) : file_(std::move(file)) {
    std::error_code none;  // a link is there, whatever it leads to
    is_new_ = !std::filesystem::exists(std::filesystem::symlink_status(file_, none));
    if (!std::ofstream(file_, std::ios::app)) cannot_write(file_);
    if (is_new_) std::filesystem::remove(file_, none);
  }

  /// All of it. Throws Error(system).
  void write(const std::string& text) const {
    std::ofstream stream(file_);
    stream << text;
    if (stream.flush()) return;
    std::error_code none;
    if (is_new_) std::filesystem::remove(file_, none);
    cannot_write(file_);
  }

 private:
  std::string file_;
  bool is_new_ = false;
};

}  // namespace tutti
