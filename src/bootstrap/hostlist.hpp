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

/// The host of the first task where a file has one for each (srun -m arbitrary): lines of hosts, with commas
/// and blanks between them, each of which may be a list, "node1*2" for two tasks, and comments behind #.
/// Empty: it has none. Throws as expand_hostlist.
std::string first_of_hostfile(std::string_view text);

/// Throws Error(invalid_argument) quoting the text.
std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace tutti::bootstrap
