/// \file
/// Who we are, as the launcher said.
#pragma once

#include <chrono>
#include <string>

#include <tutti/types.hpp>
#include <tutti/unique_id.hpp>

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
/// tutti's own tools); PMIx (Open MPI's mpirun, srun --mpi=pmix), when built with it; PMI-1 on PMI_FD
/// (MPICH's mpiexec); torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Slurm's SLURM_PROCID,
/// SLURM_NTASKS and node list. None of them: one rank. The last two hand out no secret: the id's secret is
/// then derived from TUTTI_SECRET, or without it from the job's name, which keeps strangers' bytes out but
/// not a local adversary. `interface` as in UniqueId::create; when it is empty and the launcher says that all
/// ranks are on this host, loopback; otherwise the interface that routes to the other hosts. Throws
/// Error(invalid_argument) naming the variable and its value when a variable makes no sense (rank >= size,
/// not a number), Error(timeout), Error(system), Error(unsupported) (started by mpirun, but built without
/// PMIx; says the remedy). The answer is computed once a process; later calls return it (with a fresh id
/// agreed on when the first was consumed).
Launch launch_from_environment(const std::string& interface, std::chrono::milliseconds timeout);

}  // namespace tutti::bootstrap
