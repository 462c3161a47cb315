#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "gpu/api.hpp"
#include "gpu/device/fold.hpp"
#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/reduction.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

// Communicators give out every so many numbers, each from another one on.
constexpr unsigned apart = 1U << 12U, most_reductions = 1U << 18U;

unsigned next_first() {
  static std::atomic<unsigned> communicators{0};
  return ncclNumOps + communicators++ % apart;
}

// Kernels read it there, as an element.
void require_scalar_on_device(const void* scalar, ncclDataType_t type) {
  if (gpu::api()->look_at(scalar).kind == gpu::Pointer::Kind::host)
    throw Failure(ncclInvalidArgument,
                  "the scalar is plain host memory (that is ncclScalarHostImmediate), or was freed");
  if (const std::size_t bytes = size_of(data_type(type));
      reinterpret_cast<std::uintptr_t>(scalar) % bytes != 0)
    throw Failure(ncclInvalidArgument,
                  fmt::format("the scalar is not aligned to its element of {} bytes", bytes));
}

}  // namespace

Reductions::Reductions() : first_(next_first()) {}

DataType data_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DataType::int8;
    case ncclUint8:
      return DataType::uint8;
    case ncclInt32:
      return DataType::int32;
    case ncclUint32:
      return DataType::uint32;
    case ncclInt64:
      return DataType::int64;
    case ncclUint64:
      return DataType::uint64;
    case ncclFloat16:
      return DataType::float16;
    case ncclFloat32:
      return DataType::float32;
    case ncclFloat64:
      return DataType::float64;
    case ncclBfloat16:
      return DataType::bfloat16;
    case ncclFloat8e4m3:
      return DataType::fp8_e4m3;
    case ncclFloat8e5m2:
      return DataType::fp8_e5m2;
  }
  throw Failure(ncclInvalidArgument, fmt::format("{} is no ncclDataType_t", static_cast<unsigned>(type)));
}

ncclRedOp_t Reductions::add(const void* scalar, ncclDataType_t type, ncclScalarResidence_t residence) {
  PreMultiplied made{type, 1.0, nullptr};
  const DataType ours = data_type(type);
  if (residence == ncclScalarDevice)
    made.factor_at = static_cast<const std::byte*>(scalar);
  else if (residence == ncclScalarHostImmediate)
    gpu::device::with_format(ours, [&]<class Format>() {
      typename Format::Stored stored;
      std::memcpy(&stored, scalar, sizeof stored);
      made.factor = static_cast<double>(Format::decode(stored));
    });
  else
    throw Failure(ncclInvalidArgument,
                  fmt::format("{} is no ncclScalarResidence_t", static_cast<unsigned>(residence)));
  const std::scoped_lock lock(mutex_);
  if (made_.size() == most_reductions)
    throw Failure(ncclInvalidUsage, "too many reductions; destroy those that are not used");
  auto op = static_cast<ncclRedOp_t>(first_);
  while (made_.contains(op)) op = static_cast<ncclRedOp_t>(op + apart);
  made_.emplace(op, made);
  return op;
}

Reductions::Made::const_iterator Reductions::find(ncclRedOp_t op) const {
  const auto found = made_.find(op);
  if (found == made_.end())
    throw Failure(ncclInvalidArgument,
                  fmt::format("{} is no reduction of this communicator", static_cast<unsigned>(op)));
  return found;
}

void Reductions::remove(ncclRedOp_t op) {
  const std::scoped_lock lock(mutex_);
  if (op < ncclNumOps)
    throw Failure(ncclInvalidArgument, "the reductions of NCCL itself cannot be destroyed");
  made_.erase(find(op));
}

ResolvedReduction Reductions::resolve(ncclRedOp_t op, ncclDataType_t type) {
  switch (op) {
    case ncclSum:
      return {ReduceOp::sum};
    case ncclProd:
      return {ReduceOp::product};
    case ncclMax:
      return {ReduceOp::max};
    case ncclMin:
      return {ReduceOp::min};
    case ncclAvg:
      return {ReduceOp::average};
    default:
      break;
  }
  const std::scoped_lock lock(mutex_);
  const PreMultiplied& made = find(op)->second;
  if (made.type != type)
    throw Failure(ncclInvalidArgument, "the reduction was made for another data type than the call's");
  if (made.factor_at != nullptr) return {ReduceOp::sum, made.factor_at};
  return {scaled_sum(made.factor)};
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded("ncclRedOpCreatePreMulSum", [&] {
    require(op, "op");
    require(scalar, "scalar");
    const auto on = ready(comm);
    if (residence == ncclScalarDevice) require_scalar_on_device(scalar, type);
    *op = on->reductions.add(scalar, type, residence);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(RedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded("ncclRedOpDestroy", [&] {
    comm_of(comm)->reductions.remove(op);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(RedOpDestroy);

}  // namespace tutti::nccl
