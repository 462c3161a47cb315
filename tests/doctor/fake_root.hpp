/// \file
/// A file system of a test's own, in the place of /proc and /sys.
#pragma once

#include <string>

#include "doctor/root.hpp"
#include "own_folder.hpp"

namespace tutti::doctor::testing {

class FakeRoot {
 public:
  FakeRoot& file(const std::string& path, const std::string& contents) {
    folder_.write(path, contents);
    return *this;
  }
  [[nodiscard]] Root root() const { return Root(folder_.path()); }

 private:
  test::OwnFolder folder_;
};

}  // namespace tutti::doctor::testing
