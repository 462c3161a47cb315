/// \file
/// The types of NCCL 2.28's binary interface: what a program that was compiled against nccl.h hands over.
/// Names and values are the interface; tests/nccl compares them with the toolkit's header where that is
/// installed.
#pragma once

#include <climits>
#include <cstddef>

namespace tutti::nccl {

class Comm;
struct Window;

using ncclComm_t = Comm*;
using ncclWindow_t = Window*;
using cudaStream_t = void*;

inline constexpr int version_code = 22809;

/// The first UniqueId::size bytes are tutti's id, the others zero.
struct ncclUniqueId {
  char internal[128];
};

// The underlying types are given so that values from outside the enumerations can be looked at.

enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclRedOp_t : unsigned {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,  ///< the first that ncclRedOpCreatePreMulSum gives out
};

enum ncclDataType_t : unsigned {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
};

enum ncclScalarResidence_t : unsigned { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

inline constexpr int undefined_int = INT_MIN;
inline constexpr float undefined_float = -1.0F;
inline constexpr int no_color = -1;
inline constexpr int shrink_default = 0, shrink_abort = 1;
inline constexpr int window_symmetric = 1;
inline constexpr unsigned config_magic = 0xcafebeef, simulation_magic = 0x74685283;

/// Programs of earlier versions pass a shorter one: `size` says how much of it is there.
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
};

struct ncclSimInfo_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  float estimatedTime;
};

/// Ranks of a device communicator.
struct ncclTeam_t {
  int nRanks, rank, stride;
};

}  // namespace tutti::nccl
