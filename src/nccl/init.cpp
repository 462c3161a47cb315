// The making of communicators.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "bootstrap/rendezvous.hpp"
#include "gpu/resources.hpp"
#include "nccl/functions.hpp"
#include "nccl/group.hpp"
#include "nccl/handles.hpp"
#include "nccl/log.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

static_assert(UniqueId::size <= sizeof(ncclUniqueId));

UniqueId unpack(const ncclUniqueId& from) {
  UniqueId id;
  std::memcpy(id.bytes.data(), from.internal, UniqueId::size);
  return id;
}

// `meeting`: kept for as long as the rank may come to it.
ncclResult_t init_rank(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, int device,
                       const ncclConfig_t* given, const char* function,
                       std::shared_ptr<void> meeting = nullptr) {
  if (ranks < 1) throw Failure(ncclInvalidArgument, fmt::format("{} ranks; there must be at least 1", ranks));
  if (rank < 0 || rank >= ranks)
    throw Failure(ncclInvalidArgument,
                  fmt::format("rank {} of {}; ranks are 0 to {}", rank, ranks, ranks - 1));
  auto comm = std::make_shared<Comm>(device, resolve(given, default_config()));
  comm->expect(rank, ranks);
  const auto work = [made = comm.get(), id = unpack(id), rank, ranks, options = options_from_environment(),
                     meeting = std::move(meeting)](Turn&) { made->join(id, rank, ranks, options); };
  *handle = keep(comm);
  return submit(Job{std::move(comm), work, handle, function});
}

void require_device(gpu::Api& api, int device) {
  const int devices = api.device_count();
  if (device < 0 || device >= devices)
    throw Failure(ncclInvalidArgument,
                  fmt::format("device {} does not exist; devices are 0 to {}", device, devices - 1));
}

// Errors are those of the call and of the group that it is in.
template <class Body>
ncclResult_t making(const char* function, Body&& body) noexcept {
  return refused(guarded(function, std::forward<Body>(body)));
}

ncclResult_t init(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config,
                  const char* function) {
  return making(function, [&] {
    require(handle, "the communicator's address");
    *handle = nullptr;
    return init_rank(handle, ranks, id, rank, gpu::api()->current_device(), config, function);
  });
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded("ncclGetUniqueId", [&] {
    require(id, "the id");
    log(Level::version, -1, "NCCL version 2.28.9, by tutti");
    const UniqueId made = new_id();
    *id = {};
    std::memcpy(id->internal, made.bytes.data(), UniqueId::size);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(GetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return init(comm, ranks, id, rank, nullptr, "ncclCommInitRank");
}
TUTTI_NCCL_PROFILED(CommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init(comm, ranks, id, rank, config, "ncclCommInitRankConfig");
}
TUTTI_NCCL_PROFILED(CommInitRankConfig);

// Rank 0's hub takes all of them; further ids are of no use.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  const ncclResult_t valid = making("ncclCommInitRankScalable", [&] {
    require(ids, "the array of ids");
    if (id_count < 1 || id_count > ranks)
      throw Failure(ncclInvalidArgument, fmt::format("{} ids for {} ranks", id_count, ranks));
    return ncclSuccess;
  });
  return valid == ncclSuccess ? init(comm, ranks, ids[0], rank, config, "ncclCommInitRankScalable") : valid;
}
TUTTI_NCCL_PROFILED(CommInitRankScalable);

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return making("ncclCommInitAll", [&] {
    require(comms, "the array of communicators");
    if (count < 1) throw Failure(ncclInvalidArgument, fmt::format("{} devices; at least 1 is needed", count));
    std::fill_n(comms, count, nullptr);
    const auto api = gpu::api();
    for (int rank = 0; rank < count; ++rank) {
      if (devices != nullptr) require_device(*api, devices[rank]);
      const gpu::OnDevice there(*api, devices == nullptr ? rank : devices[rank]);
    }
    ncclUniqueId id;
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) return result;
    // Nobody else knows the id: where its rank 0 never comes, what listens there goes with the last rank.
    const std::shared_ptr<void> meeting(nullptr, [id = unpack(id)](void*) { bootstrap::drop_listener(id); });
    begin_group();
    refused(guarded("ncclCommInitAll", [&] {
      for (int rank = 0; rank < count; ++rank)
        init_rank(comms + rank, count, id, rank, devices == nullptr ? rank : devices[rank], nullptr,
                  "ncclCommInitAll", meeting);
      return ncclSuccess;
    }));
    return end_group();
  });
}
TUTTI_NCCL_PROFILED(CommInitAll);

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  return making("ncclCommSplit", [&] {
    require(child, "the new communicator's address");
    *child = nullptr;
    const auto parent = ready(comm);
    if (parent->revoked())
      throw Failure(ncclInvalidUsage, "a revoked communicator cannot be split; use ncclCommShrink");
    if (color < no_color)
      throw Failure(ncclInvalidArgument,
                    fmt::format("color {}; it must be 0 or more, or NCCL_SPLIT_NOCOLOR", color));
    auto part = std::make_shared<Comm>(parent->device(), resolve(config, parent->config()));
    parent->add_part(part);
    if (color == no_color)
      return submit(
          Job{part, [parent, key](Turn&) { parent->leave_part(key); }, nullptr, "ncclCommSplit", parent});
    *child = keep(part);
    const auto work = [made = part.get(), parent, color, key](Turn& turn) {
      made->join_part(*parent, color, key, turn);
    };
    return submit(Job{part, work, child, "ncclCommSplit", parent});
  });
}
TUTTI_NCCL_PROFILED(CommSplit);

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* child,
                            ncclConfig_t* config, int flags) {
  return making("ncclCommShrink", [&] {
    require(child, "the new communicator's address");
    *child = nullptr;
    const auto parent = once_made(comm);
    if (flags != shrink_default && flags != shrink_abort)
      throw Failure(ncclInvalidArgument, fmt::format("{} is no flag of ncclCommShrink", flags));
    if (excluded_count < 0 || excluded_count >= parent->size())
      throw Failure(ncclInvalidArgument,
                    fmt::format("{} of {} ranks cannot be left out", excluded_count, parent->size()));
    if (excluded_count > 0) require(excluded, "the array of ranks");
    std::vector<Rank> survivors;
    const std::span<const int> gone(excluded, static_cast<std::size_t>(excluded_count));
    for (const int rank : gone)
      if (rank < 0 || rank >= parent->size())
        throw Failure(ncclInvalidArgument, fmt::format("rank {} is not one of the communicator's", rank));
    for (Rank r = 0; r < parent->size(); ++r)
      if (std::ranges::find(gone, r) == gone.end()) survivors.push_back(r);
    if (std::ranges::find(gone, parent->rank()) != gone.end())
      throw Failure(ncclInvalidArgument,
                    fmt::format("rank {} is left out; only the others call this", parent->rank()));
    if (flags == shrink_abort) parent->revoke();
    auto rest = std::make_shared<Comm>(parent->device(), resolve(config, parent->config()));
    parent->add_part(rest);
    *child = keep(rest);
    const auto work = [made = rest.get(), parent, survivors](Turn&) {
      made->join_survivors(*parent, survivors);
    };
    return submit(Job{rest, work, child, "ncclCommShrink", parent});
  });
}
TUTTI_NCCL_PROFILED(CommShrink);

}  // namespace tutti::nccl
