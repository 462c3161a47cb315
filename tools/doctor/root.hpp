/// \file
/// The files in which Linux describes itself, under a root that tests put somewhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::doctor {

class Root {
 public:
  /// `prefix` goes in front of every path; empty: this machine.
  explicit Root(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  /// The contents without white space at the end; nothing when the file cannot be read.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  /// The number with which the contents begin.
  [[nodiscard]] std::optional<long long> number(const std::string& path) const;
  /// What follows "KEY:" in a file of such lines (/proc/meminfo, /proc/self/status).
  [[nodiscard]] std::optional<std::string> field(const std::string& path, const std::string& key) const;
  /// The first `most` bytes; fewer when the system gives fewer.
  [[nodiscard]] std::vector<std::uint8_t> bytes(const std::string& path, std::size_t most) const;
  /// What the file system says; 0 when there is no such file.
  [[nodiscard]] std::size_t size(const std::string& path) const;
  /// Names in a directory, sorted; none when there is no such directory.
  [[nodiscard]] std::vector<std::string> names(const std::string& directory) const;
  [[nodiscard]] bool exists(const std::string& path) const;
  [[nodiscard]] bool readable_and_writable(const std::string& path) const;

  /// Whether the kernel knows RDMA devices, and whether a GPU of this PCI vendor is plugged in.
  [[nodiscard]] bool has_rdma() const { return !names("/sys/class/infiniband").empty(); }
  [[nodiscard]] int gpus(const std::string& vendor) const;
  [[nodiscard]] bool has_gpu() const { return gpus(nvidia) + gpus(amd) > 0; }
  /// Whether this process has a capability of <linux/capability.h>.
  [[nodiscard]] bool capable(int capability) const;

  static constexpr const char* nvidia = "0x10de";
  static constexpr const char* amd = "0x1002";

 private:
  std::string prefix_;
};

/// What stands in brackets: "madvise" of "always [madvise] never"; empty when nothing does.
std::string bracketed(const std::string& choices);

}  // namespace tutti::doctor
