/// \file
/// Files of results.
#pragma once

#include <fstream>
#include <string>

#include <tutti/error.hpp>

namespace tutti {

[[noreturn]] inline void cannot_write(const std::string& file) {
  throw Error(ErrorCode::system, "cannot write " + file);
}

/// Throws Error(system) unless `file` can be written. To be asked before the work that takes long; makes an
/// empty file where there is none.
inline void check_writable(const std::string& file) {
  if (!std::ofstream(file, std::ios::app)) cannot_write(file);
}

/// Throws Error(system).
inline void write_file(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  stream << text;
  if (!stream.flush()) cannot_write(file);
}

}  // namespace tutti
