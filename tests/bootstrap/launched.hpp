/// \file
/// A process as launchers leave it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tutti::bootstrap::test {

using Variables = std::map<std::string, std::string>;

/// Clears what launchers set, sets `variables`, and restores everything at its end.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      before_[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    }
    for (const auto& [name, value] : before_)
      for (const char* prefix : {"TUTTI_", "PMI", "OMPI_", "MPI_", "SLURM_", "TORCHELASTIC", "MASTER_",
                                 "RANK", "WORLD_SIZE", "LOCAL_"})
        if (name.starts_with(prefix)) ::unsetenv(name.c_str());
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    ::clearenv();
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Variables before_;
};

}  // namespace tutti::bootstrap::test
