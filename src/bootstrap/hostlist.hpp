/// \file
/// Slurm's short forms: "node[01-04,7],other" for hosts, "2(x3),1" for tasks per node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::bootstrap {

/// The hosts in order; leading zeros of ranges are kept ("n[08-10]" is n08 n09 n10), several brackets in one
/// name multiply. Throws Error(invalid_argument) quoting the list, also for more than 1,000,000 hosts and for
/// names longer than any.
std::vector<std::string> expand_hostlist(std::string_view list);

/// Throws Error(invalid_argument) quoting the text.
std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace tutti::bootstrap
