// Launchers under which every rank can work out by itself where rank 0 listens: tutti's own tools, torchrun,
// Slurm.
#include <algorithm>
#include <span>
#include <utility>

#include "base/read_file.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/hmac.hpp"
#include "bootstrap/hostlist.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/variables.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// What these two variables say. `because`: the one for which that of the size must be set.
Launch rank_and_size(const char* launcher, const char* rank, const char* size, const char* because) {
  Launch identity{.launcher = launcher, .size = required_number(size, because, 1), .id = {}};
  identity.rank = required_number(rank, size, 0);
  if (identity.rank >= identity.size)
    refuse_variable(rank, std::string("less than ") + size + ", which is " + std::to_string(identity.size));
  return identity;
}

/// What the text of a variable means; errors name the variable.
template <class Parse>
auto meaning_of(const char* name, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw with_context(error, std::string(name) + ": ", {});
  }
}

/// All know the id from the beginning.
class GivenId final : public Launcher {
 public:
  GivenId(Launch identity, const UniqueId& id) : Launcher(std::move(identity)), id_(id) {}
  UniqueId agree(const std::string& /*interface*/, const Deadline& /*deadline*/) override { return id_; }

 private:
  UniqueId id_;
};

/// Rank 0 on a named host at a port that all know. The job's name is no secret, TUTTI_SECRET is.
class NamedHostLauncher final : public Launcher {
 public:
  /// `named_by`: the variable that has `master`. `other_host`: some host besides it; empty: unknown.
  NamedHostLauncher(Launch identity, std::string master, const char* named_by, int port,
                    const std::string& job, std::string other_host)
      : Launcher(std::move(identity)),
        master_(std::move(master)),
        named_by_(named_by),
        other_host_(std::move(other_host)),
        port_(static_cast<std::uint16_t>(port)),
        secret_(derive(bytes_of(variable("TUTTI_SECRET").value_or("")), "tutti job " + job, 0)) {}

  UniqueId agree(const std::string& interface, const Deadline& deadline) override {
    try {
      return make_id({{address(interface, deadline), port_}, secret_});
    } catch (const Error& error) {
      throw with_context(error, named_by_ + " must name rank 0's host as every rank reaches it: ", {});
    }
  }

 private:
  /// Where rank 0 listens, as this rank sees it. Hosts files often give a host's own name a loopback address,
  /// under which no other host reaches it; all ranks there then agree on the address that faces the others.
  [[nodiscard]] std::string address(const std::string& interface, const Deadline& deadline) const {
    auto found = topology::resolve(master_, deadline).at(0);
    if (found == master_ || master_ == "localhost" || one_host()) return found;
    const bool mine_to_judge = identity().rank == 0 || topology::is_loopback(found);
    if (!mine_to_judge || (!topology::is_loopback(found) && topology::is_local(found))) return found;
    if (!interface.empty()) return topology::interface_address(interface);
    return other_host_.empty() ? topology::default_route()
                               : topology::route_to(topology::resolve(other_host_, deadline).at(0));
  }

  std::string master_, named_by_, other_host_;
  std::uint16_t port_;
  Secret secret_;
};

/// Where srun has started rank 0: on the first of the step's hosts, which it sorts, but where its user named
/// a host for each task in a file. Only rank 0 knows for sure, and need not be on a host that has the file.
std::string host_of_rank_0(const std::vector<std::string>& hosts, Rank rank) {
  if (variable("SLURM_DISTRIBUTION") != "arbitrary") return hosts.front();
  std::string named;
  try {
    if (const auto file = variable("SLURM_HOSTFILE")) named = first_of_hostfile(read_file("hosts", *file));
  } catch (const Error&) {
    named.clear();
  }
  if (std::ranges::find(hosts, named) == hosts.end()) named = hosts.front();
  const auto node = static_cast<std::size_t>(number("SLURM_NODEID").value_or(0));
  if (rank == 0 && node < hosts.size() && hosts[node] != named)
    throw Error(ErrorCode::unsupported,
                "srun -m arbitrary has started rank 0 on " + hosts[node] +
                    ", and other ranks look for it on " + named +
                    ": SLURM_HOSTFILE cannot be read, or has changed; have it where all hosts see it, "
                    "or start the ranks by srun --mpi=pmix or --mpi=pmi2",
                {0});
  return named;
}

}  // namespace

std::unique_ptr<Launcher> find_tutti() {
  const bool any = variable("TUTTI_RANK") || variable("TUTTI_SIZE") || variable("TUTTI_ID");
  if (!any) return nullptr;
  Launch identity =
      rank_and_size("tutti", "TUTTI_RANK", "TUTTI_SIZE", variable("TUTTI_RANK") ? "TUTTI_RANK" : "TUTTI_ID");
  read_local(identity, "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE");
  UniqueId id;
  if (identity.size > 1) {
    const auto text = variable("TUTTI_ID");
    if (!text) throw Error(ErrorCode::invalid_argument, "TUTTI_SIZE is set, but TUTTI_ID is not; set both");
    id = meaning_of("TUTTI_ID", *text, &UniqueId::parse);
  }
  return std::make_unique<GivenId>(std::move(identity), id);
}

std::unique_ptr<Launcher> find_torchrun() {
  // Either alone may be another program's; with a master it is not.
  const bool both = variable("RANK") && variable("WORLD_SIZE");
  if (!both && (!variable("MASTER_ADDR") || (!variable("RANK") && !variable("WORLD_SIZE")))) return nullptr;
  Launch identity = rank_and_size("torchrun", "RANK", "WORLD_SIZE", "RANK");
  read_local(identity, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  const auto master = variable("MASTER_ADDR");
  if (!master && identity.size > 1)
    throw Error(ErrorCode::invalid_argument,
                "RANK and WORLD_SIZE are set, but MASTER_ADDR is not; set it to rank 0's host");
  // MASTER_PORT itself belongs to torch's store.
  const int port = variable("TUTTI_PORT") || identity.size == 1
                       ? port_or(1)
                       : required_number("MASTER_PORT", "MASTER_ADDR", 1, 65534) + 1;
  // Not TORCHELASTIC_RESTART_COUNT: each node counts the failures of its own, and one that comes later begins
  // at 0.
  const auto job =
      "torchrun " + variable("TORCHELASTIC_RUN_ID").value_or("") + " " + variable("MASTER_PORT").value_or("");
  return std::make_unique<NamedHostLauncher>(std::move(identity), master.value_or("127.0.0.1"), "MASTER_ADDR",
                                             port, job, "");
}

std::unique_ptr<Launcher> find_slurm() {
  // Slurm sets SLURM_PROCID and SLURM_NTASKS for a batch script too, which is one process; only srun makes a
  // step.
  if (!variable("SLURM_PROCID") || !variable("SLURM_NTASKS") || !variable("SLURM_STEP_ID")) return nullptr;
  const char* const tasks = variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Launch identity = rank_and_size("Slurm", "SLURM_PROCID", tasks, "SLURM_PROCID");
  const int local_rank = number("SLURM_LOCALID").value_or(0);
  if (const auto per_node = variable("SLURM_STEP_TASKS_PER_NODE")) {
    const auto counts = meaning_of("SLURM_STEP_TASKS_PER_NODE", *per_node, &expand_tasks_per_node);
    const auto node = static_cast<std::size_t>(number("SLURM_NODEID").value_or(0));
    if (node >= counts.size())
      refuse_variable("SLURM_NODEID",
                      "less than the " + std::to_string(counts.size()) + " nodes of the step");
    identity.local_size = counts[node];
    identity.local_rank = local_rank;
  }
  const char* const named_by = variable("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto list = variable(named_by);
  if (!list && identity.size > 1)
    throw Error(ErrorCode::invalid_argument,
                "SLURM_PROCID is set, but neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is");
  const auto hosts = meaning_of(named_by, list.value_or("localhost"), &expand_hostlist);
  const auto job = id_number("SLURM_JOB_ID"), step = id_number("SLURM_STEP_ID");
  // Below the ports that Linux gives to outgoing connections (32768 and up); steps of one job get different
  // ones.
  const auto port = 15'000 + (job * 31 + step) % 17'000;
  const auto name = "Slurm " + std::to_string(job) + " " + std::to_string(step) + " " +
                    variable("SLURM_RESTART_COUNT").value_or("");
  const std::string first = host_of_rank_0(hosts, identity.rank);
  const auto other = std::ranges::find_if(hosts, [&](const std::string& host) { return host != first; });
  return std::make_unique<NamedHostLauncher>(std::move(identity), first, named_by,
                                             port_or(static_cast<int>(port)), name,
                                             other != hosts.end() ? *other : "");
}

}  // namespace tutti::bootstrap
