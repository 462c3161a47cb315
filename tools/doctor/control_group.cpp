#include "doctor/control_group.hpp"

#include <fmt/format.h>

#include <sstream>

namespace tutti::doctor {

std::vector<ControlGroup> control_groups(const Root& root, std::string_view controller) {
  std::vector<ControlGroup> found;
  std::istringstream lines(root.text("/proc/self/cgroup").value_or(""));
  // "4:cpu,cpuacct:/a/b" of version 1, "0::/a/b" of version 2.
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = line.starts_with("0::");
    if (!v2 && controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const std::string mount = v2 ? "/sys/fs/cgroup" : fmt::format("/sys/fs/cgroup/{}", controller);
    for (std::string group = line.substr(second + 1);; group.erase(group.rfind('/'))) {
      if (group == "/") group.clear();
      found.push_back({mount + group, v2});
      if (group.find('/') == std::string::npos) break;
    }
  }
  return found;
}

}  // namespace tutti::doctor
