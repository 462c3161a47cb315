/// \file
/// NCCL's types and reductions as tutti's, and the reductions that a program makes itself.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include <tutti/types.hpp>

#include "nccl/abi.hpp"

namespace tutti::nccl {

/// Throws Failure(ncclInvalidArgument) for a value outside the enumeration.
DataType data_type(ncclDataType_t type);

/// One reduction of a call.
struct ResolvedReduction {
  Reduction reduction;
  const std::byte* factor_at = nullptr;  ///< the factor lies there when the kernel runs
};

/// Sums of elements times a scalar, of one communicator. Thread safe.
class Reductions {
 public:
  Reductions();
  /// `scalar`: one element of `type`, on the host, or on the device and read by every call.
  ncclRedOp_t add(const void* scalar, ncclDataType_t type, ncclScalarResidence_t residence);
  void remove(ncclRedOp_t op);
  /// Throws Failure(ncclInvalidArgument) for one that does not exist, or was made for another type.
  ResolvedReduction resolve(ncclRedOp_t op, ncclDataType_t type);

 private:
  struct PreMultiplied {
    ncclDataType_t type;
    double factor;
    const std::byte* factor_at;
  };
  using Made = std::map<ncclRedOp_t, PreMultiplied>;
  /// The mutex is held. Throws Failure(ncclInvalidArgument) for one that does not exist.
  [[nodiscard]] Made::const_iterator find(ncclRedOp_t op) const;

  const unsigned first_;  ///< to be given out; other communicators give out others, so theirs are found
  std::mutex mutex_;
  Made made_;
};

}  // namespace tutti::nccl
