// Which launcher started this process, and what those have in common that hand on an id.
#include "bootstrap/launcher.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <sstream>
#include <utility>

#include <tutti/error.hpp>

#include "base/read_file.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/variables.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap {
namespace {

class NoLauncher final : public Launcher {
 public:
  NoLauncher() : Launcher({.launcher = "none", .id = {}}) {}
  UniqueId agree(const std::string& /*interface*/, const Deadline& /*deadline*/) override { return {}; }
};

/// Its number may be another one where /proc was mounted, in the process-id namespace around a container.
constexpr const char* this_process = "self";

/// A file that the system has of a process; empty where it cannot be read.
std::string file_of(const std::string& process, const char* name) {
  try {
    return read_file("process", "/proc/" + process + "/" + name);
  } catch (const Error&) {
    return "";
  }
}

/// Empty, or 0: not to be seen from here.
std::string parent_of(const std::string& process) {
  const std::string all = file_of(process, "stat");  // "12 (name) S 1 ...", with anything in the name
  std::istringstream rest(all.substr(all.rfind(')') + 1));
  std::string state, parent;
  rest >> state >> parent;
  return parent;
}

/// A variable as it stands among those that a process was started with, each of which ends with a zero.
std::string as_started_with(const char* name) {
  return '\0' + std::string(name) + '=' + variable(name).value_or("") + '\0';
}

bool is_of_this_user(const std::string& process) {
  struct stat shown = {};
  return ::stat(("/proc/" + process).c_str(), &shown) == 0 && shown.st_uid == ::geteuid();
}

/// Of two launchers, each known by a variable that this process has: whether that of `later` came last. The
/// first process above that was not started with both is that launcher then, which the other one gave
/// `earlier`; else it is the other one, which a process of this one called. This process itself was started
/// with both, or no launcher came later: Open MPI's MPI_Init sets PMIX_NAMESPACE where none started it.
/// `unseen`: where the system does not tell. Another user's process is a daemon's, Slurm's, say, whose
/// variables are those of `earlier`.
bool came_last(const char* later, const char* earlier, bool unseen) {
  const std::string before = as_started_with(earlier), after = as_started_with(later);
  for (std::string one = this_process; !one.empty() && one != "0"; one = parent_of(one)) {
    const bool is_this = one == this_process;
    const std::string shown = file_of(one, "environ"), all = '\0' + shown;
    if (shown.empty()) return unseen && (is_this || is_of_this_user(one));
    const bool has_before = all.find(before) != std::string::npos;
    if (!has_before || all.find(after) == std::string::npos) return has_before || is_this;
  }
  return unseen;
}

constexpr std::string_view no_id = "none:";  ///< then comes why

UniqueId create_id(const std::string& interface, bool one_host, const std::string& other_host,
                   const Deadline& deadline) {
  if (!interface.empty() || variable("TUTTI_INTERFACE")) return UniqueId::create(interface);
  if (one_host) return UniqueId::create(topology::loopback_address());
  if (other_host.empty()) return UniqueId::create(topology::default_route());
  try {
    return UniqueId::create(topology::route_to(topology::resolve(other_host, deadline).at(0)));
  } catch (const Error& error) {
    throw with_context(error,
                       "no interface is known to lead to the other hosts; TUTTI_INTERFACE names one: ", {});
  }
}

}  // namespace

Launcher::Launcher(Launch identity) : identity_(std::move(identity)) {
  const auto& [launcher, rank, size, local_rank, local_size, id] = identity_;
  if (size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, launcher + " says rank " + std::to_string(rank) + " of " +
                                                 std::to_string(size) + "; ranks go from 0 to size - 1");
  if (local_size < 1 || local_size > size || local_rank < 0 || local_rank >= local_size)
    throw Error(ErrorCode::invalid_argument, launcher + " says local rank " + std::to_string(local_rank) +
                                                 " of " + std::to_string(local_size) + " on this host, and " +
                                                 std::to_string(size) +
                                                 " ranks in all; local ranks go from 0 to local size - 1");
}

void read_local(Launch& identity, const char* rank, const char* size) {
  const auto local_size = number(size, 1), local_rank = number(rank);
  if (!local_size) return;
  if (*local_size > identity.size)
    refuse_variable(size, "at most the " + std::to_string(identity.size) + " ranks that there are in all");
  if (local_rank.value_or(0) >= *local_size)
    refuse_variable(rank, std::string("less than ") + size + ", which is " + std::to_string(*local_size));
  identity.local_size = *local_size;
  identity.local_rank = local_rank.value_or(0);
}

std::unique_ptr<Launcher> find_launcher(const Deadline& deadline) {
  if (auto found = find_tutti()) return found;
  // What has started torchrun on each host, srun or mpirun, has left its variables to torchrun's processes,
  // too; and these leave theirs to the ranks of an mpirun that they call. So do those of Open MPI's mpirun to
  // an mpiexec of MPICH's.
  const auto came_after = [](const char* later, const char* name, bool unseen) {
    return variable(later) && (!variable(name) || came_last(later, name, unseen));
  };
  constexpr const char* torchruns = "TORCHELASTIC_RUN_ID";
  if (came_after(torchruns, "PMIX_NAMESPACE", true) && came_after(torchruns, "PMI_FD", true))
    if (auto found = find_torchrun()) return found;
  if (came_after("PMI_FD", "PMIX_NAMESPACE", false))
    if (auto found = find_pmi1()) return found;
  if (auto found = find_pmix(deadline)) return found;
  if (auto found = find_pmi1()) return found;
  if (auto found = find_torchrun()) return found;
  if (auto found = find_slurm()) return found;
  return std::make_unique<NoLauncher>();
}

Offer offer_id(const std::string& interface, bool one_host, const std::string& other_host,
               const Deadline& deadline) {
  try {
    return {create_id(interface, one_host, other_host, deadline).to_string(), nullptr};
  } catch (const Error& error) {
    return {std::string(no_id) + to_fault(error).text, std::current_exception()};
  }
}

UniqueId id_of(const std::string& offer) {
  if (offer.starts_with(no_id))
    throw Error(ErrorCode::aborted, "rank 0 could not make a unique id: " + offer.substr(no_id.size()), {0});
  if (offer.empty())
    throw Error(ErrorCode::system,
                std::string("the launcher did not hand on the unique id of rank 0; ") + use_another);
  return UniqueId::parse(offer);
}

}  // namespace tutti::bootstrap
