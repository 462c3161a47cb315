// The operations: each becomes a Call, which runs now or at the end of its group.
#include "nccl/functions.hpp"
#include "nccl/group.hpp"
#include "nccl/handles.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

struct Arguments {
  Operation operation;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int root = 0;
  ncclRedOp_t op = ncclSum;
};

ncclResult_t enqueue(const char* function, const Arguments& arguments, ncclComm_t handle,
                     cudaStream_t stream) noexcept {
  return refused(guarded(function, [&] {
    const auto comm = ready(handle);
    if (comm->revoked()) throw Failure(ncclInvalidUsage, "the communicator was revoked");
    const auto [reduction, factor_at] = comm->reductions.resolve(arguments.op, arguments.type);
    Queued queued;
    queued.call.operation = arguments.operation;
    queued.call.type = data_type(arguments.type);
    queued.call.reduction = reduction;
    queued.call.root = arguments.root;
    queued.call.in = arguments.in;
    queued.call.out = arguments.out;
    queued.call.count = arguments.count;
    queued.stream = stream;
    queued.factor_at = factor_at;
    return submit(queued, comm);
  }));
}

}  // namespace

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllReduce", {Operation::all_reduce, in, out, count, type, 0, op}, comm, stream);
}
TUTTI_NCCL_PROFILED(AllReduce);

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduce", {Operation::reduce, in, out, count, type, root, op}, comm, stream);
}
TUTTI_NCCL_PROFILED(Reduce);

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", {Operation::reduce_scatter, in, out, count, type, 0, op}, comm, stream);
}
TUTTI_NCCL_PROFILED(ReduceScatter);

ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return enqueue("ncclBcast", {Operation::broadcast, buffer, buffer, count, type, root}, comm, stream);
}
TUTTI_NCCL_PROFILED(Bcast);

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclBroadcast", {Operation::broadcast, in, out, count, type, root}, comm, stream);
}
TUTTI_NCCL_PROFILED(Broadcast);

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclAllGather", {Operation::all_gather, in, out, count, type}, comm, stream);
}
TUTTI_NCCL_PROFILED(AllGather);

ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return enqueue("ncclAlltoAll", {Operation::all_to_all, in, out, count, type}, comm, stream);
}
TUTTI_NCCL_PROFILED(AlltoAll);

ncclResult_t ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclGather", {Operation::gather, in, out, count, type, root}, comm, stream);
}
TUTTI_NCCL_PROFILED(Gather);

ncclResult_t ncclScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclScatter", {Operation::scatter, in, out, count, type, root}, comm, stream);
}
TUTTI_NCCL_PROFILED(Scatter);

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclSend", {Operation::send, in, nullptr, count, type, peer}, comm, stream);
}
TUTTI_NCCL_PROFILED(Send);

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclRecv", {Operation::receive, nullptr, out, count, type, peer}, comm, stream);
}
TUTTI_NCCL_PROFILED(Recv);

}  // namespace tutti::nccl
