/// \file
/// Who we are, as the launcher said.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <tutti/types.hpp>
#include <tutti/unique_id.hpp>

#include "bootstrap/session.hpp"

namespace tutti::bootstrap {

/// What a launcher told this process.
struct Launch {
  std::string launcher;  ///< "tutti", "PMIx", "PMI-1", "Slurm", "torchrun", "none"
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of this host, as far as the launcher says; else 0
  int local_size = 1;
  UniqueId id;  ///< valid when size > 1
};

/// Finds the launcher and agrees on a unique id. In this order: TUTTI_RANK, TUTTI_SIZE, TUTTI_ID (set by
/// tutti's own tools, the id made by `reserve_id`; optionally TUTTI_LOCAL_SIZE and TUTTI_LOCAL_RANK); PMIx
/// (Open MPI's mpirun, srun --mpi=pmix), when built with it; PMI-1 on PMI_FD (MPICH's mpiexec, srun
/// --mpi=pmi2); torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (optionally LOCAL_WORLD_SIZE and
/// LOCAL_RANK), second where torchrun itself has set them (TORCHELASTIC_RUN_ID): whatever has started it on
/// each host has left variables, too; but not where the processes above show that one of torchrun's called
/// that launcher, as they show where one of PMIx's called PMI-1's; Slurm's SLURM_PROCID, SLURM_NTASKS,
/// SLURM_STEP_ID (absent in a batch script, which is one process) and node list. None of them: one rank.
///
/// Under the last two, rank 0 listens on the first host at TUTTI_PORT, else at MASTER_PORT + 1 or a port made
/// from the numbers of the Slurm job and step. They hand out no secret: the id's secret is derived from
/// TUTTI_SECRET and the job's name; without TUTTI_SECRET that keeps strangers' bytes out, but not a local
/// adversary. `interface` as in UniqueId::create; when it is empty and the launcher says that all ranks are
/// on this host, loopback; otherwise the interface that routes to the other hosts. Where the launcher names
/// rank 0's host, `interface` matters only when that name is a loopback address there.
///
/// Throws Error(invalid_argument) naming the variable and its value when a variable makes no sense (rank >=
/// size, not a number), Error(timeout), Error(system), Error(unsupported) (started by mpirun, but built
/// without PMIx; says the remedy), Error(forked) in a child of a process that asked before, Error(aborted)
/// where rank 0 could make no id, with its reason. The launcher is found once a process. PMIx and PMI-1:
/// later calls return the same id until Session::join used it, then a fresh one: collective, in the same
/// order on all ranks; a rank whose time was over before all had asked takes part in the same id when it asks
/// again. Under the others the id is always the same, and ranks meet whenever they join at the same time,
/// however often each has tried before. The launcher's connection is closed at the end of the process, with
/// exit(3) or a return from main.
Launch launch_from_environment(const std::string& interface, std::chrono::milliseconds timeout);

/// Remembers that `id` has been joined with, so that the next launch_from_environment agrees on another one.
void mark_used(const UniqueId& id);

/// Finds the launcher, and joins the group of all ranks that it started. Thread safe: threads of one process
/// take turns, so that each has a group of its own. `timeout` is for all of it. Throws as
/// launch_from_environment and Session::join; Error(timeout) also where another thread's turn takes too long.
std::shared_ptr<Session> join_from_environment(const std::string& interface,
                                               std::chrono::milliseconds timeout);

}  // namespace tutti::bootstrap
