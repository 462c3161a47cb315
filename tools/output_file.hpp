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

/// Made before the work that takes long, so that it fails soon. If that work fails, a file that was not there
/// before goes again.
class OutputFile {
 public:
  /// Throws Error(system) unless `file` can be written.
  explicit OutputFile(std::string file) : file_(std::move(file)) {
    std::error_code none;
    goes_ = !std::filesystem::exists(file_, none);
    if (!std::ofstream(file_, std::ios::app)) cannot_write(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    std::error_code none;
    if (goes_) std::filesystem::remove(file_, none);
  }

  /// All of it. Throws Error(system).
  void write(const std::string& text) {
    std::ofstream stream(file_);
    stream << text;
    if (!stream.flush()) cannot_write(file_);
    goes_ = false;
  }

 private:
  std::string file_;
  bool goes_ = false;
};

}  // namespace tutti
