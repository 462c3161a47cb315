/// \file
/// An environment variable for a while.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tutti::test {

/// One variable, until its end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* text = std::getenv(name)) before_ = text;
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace tutti::test
