// The host's side of NCCL's device API (nccl_device.h). Its kernels read structures that only NCCL makes, so
// nothing but the teams is there; a rank reaches itself by loads and stores, as far as a program may rely on.
#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

ncclResult_t refuse(const char* function) noexcept {
  return guarded(function, []() -> ncclResult_t {
    throw Failure(ncclInvalidUsage,
                  "tutti has no device API: kernels that communicate themselves need NVIDIA's library");
  });
}

template <class Make>
ncclTeam_t team(const char* function, ncclComm_t comm, const Make& make) noexcept {
  ncclTeam_t made{};
  guarded(function, [&] {
    made = make(*ready(comm));
    return ncclSuccess;
  });
  return made;
}
ncclTeam_t everybody(const Comm& comm) { return {comm.size(), comm.rank(), 1}; }
ncclTeam_t alone(const Comm& /*comm*/) { return {1, 0, 1}; }

}  // namespace

ncclTeam_t ncclTeamWorld(ncclComm_t comm) { return team("ncclTeamWorld", comm, everybody); }
TUTTI_NCCL_PROFILED(TeamWorld);
ncclTeam_t ncclTeamLsa(ncclComm_t comm) { return team("ncclTeamLsa", comm, alone); }
TUTTI_NCCL_PROFILED(TeamLsa);
ncclTeam_t ncclTeamRail(ncclComm_t comm) { return team("ncclTeamRail", comm, everybody); }
TUTTI_NCCL_PROFILED(TeamRail);

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
TUTTI_NCCL_PROFILED(TeamRankToWorld);

/// -1 for a rank that is not this one.
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return ncclTeamRankToWorld(comm, team, rank) == ncclTeamWorld(comm).rank ? 0 : -1;
}
TUTTI_NCCL_PROFILED(TeamRankToLsa);

ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) { return refuse("ncclDevCommCreate"); }
TUTTI_NCCL_PROFILED(DevCommCreate);
ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) { return refuse("ncclDevCommDestroy"); }
TUTTI_NCCL_PROFILED(DevCommDestroy);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, void*, void*) {
  return refuse("ncclGinBarrierCreateRequirement");
}
TUTTI_NCCL_PROFILED(GinBarrierCreateRequirement);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int, void*, void*) {
  return refuse("ncclLsaBarrierCreateRequirement");
}
TUTTI_NCCL_PROFILED(LsaBarrierCreateRequirement);
int ncclLLA2ACalcSlots(int, int) {
  refuse("ncclLLA2ACalcSlots");
  return 0;
}
TUTTI_NCCL_PROFILED(LLA2ACalcSlots);
ncclResult_t ncclLLA2ACreateRequirement(int, int, void*, void*) {
  return refuse("ncclLLA2ACreateRequirement");
}
TUTTI_NCCL_PROFILED(LLA2ACreateRequirement);

}  // namespace tutti::nccl
