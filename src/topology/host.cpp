#include "topology/host.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "base/hash.hpp"

namespace tutti::topology {

namespace {

void append_inode(HostId& id, std::size_t at, const char* path) {
  struct stat info {};
  if (::stat(path, &info) == 0) std::memcpy(id.data() + at, &info.st_ino, sizeof info.st_ino);
}

std::string boot_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace

HostId this_host() {
  HostId id{};
  std::string boot = boot_id();
  if (boot.empty()) {
    boot.resize(40);
    ::gethostname(boot.data(), boot.size() - 1);
  }
  std::memcpy(id.data(), boot.data(), std::min<std::size_t>(boot.size(), 40));
  append_inode(id, 40, "/proc/self/ns/net");
  append_inode(id, 48, "/proc/self/ns/pid");
  return id;
}

std::uint64_t this_loopback() {
  struct stat info {};
  const std::string boot = boot_id();
  if (boot.empty() || ::stat("/proc/self/ns/net", &info) != 0) return 0;
  return fnv1a(boot + "/" + std::to_string(info.st_ino));
}

}  // namespace tutti::topology
