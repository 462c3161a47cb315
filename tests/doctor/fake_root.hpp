/// \file
/// A file system of a test's own, in the place of /proc and /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "doctor/root.hpp"

namespace tutti::doctor::testing {

class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-doctor-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~FakeRoot() { std::filesystem::remove_all(directory_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  FakeRoot& file(const std::string& path, const std::string& contents) {
    const std::filesystem::path whole = directory_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << contents;
    return *this;
  }
  [[nodiscard]] Root root() const { return Root(directory_); }

 private:
  std::string directory_;
};

}  // namespace tutti::doctor::testing
