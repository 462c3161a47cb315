// NVIDIA's header, where it is installed: our types are its types, and a client that was compiled against it
// runs.
#include <gtest/gtest.h>

#ifdef TUTTI_HAVE_NCCL_HEADER
#include <nccl.h>
#endif

#include <cstddef>

#include "gpu/emulated_api.hpp"
#include "nccl/abi.hpp"

namespace tutti::test {
namespace {

#ifdef TUTTI_HAVE_NCCL_HEADER

static_assert(sizeof(nccl::ncclUniqueId) == sizeof(::ncclUniqueId) &&
              sizeof(nccl::ncclConfig_t) == sizeof(::ncclConfig_t) &&
              sizeof(nccl::ncclSimInfo_t) == sizeof(::ncclSimInfo_t) &&
              sizeof(nccl::ncclResult_t) == sizeof(::ncclResult_t) &&
              sizeof(nccl::ncclRedOp_t) == sizeof(::ncclRedOp_t) &&
              sizeof(nccl::ncclDataType_t) == sizeof(::ncclDataType_t) &&
              sizeof(nccl::ncclScalarResidence_t) == sizeof(::ncclScalarResidence_t));

#define SAME_OFFSET(type, field) static_assert(offsetof(nccl::type, field) == offsetof(::type, field))
SAME_OFFSET(ncclConfig_t, magic);
SAME_OFFSET(ncclConfig_t, version);
SAME_OFFSET(ncclConfig_t, blocking);
SAME_OFFSET(ncclConfig_t, cgaClusterSize);
SAME_OFFSET(ncclConfig_t, minCTAs);
SAME_OFFSET(ncclConfig_t, maxCTAs);
SAME_OFFSET(ncclConfig_t, netName);
SAME_OFFSET(ncclConfig_t, splitShare);
SAME_OFFSET(ncclConfig_t, trafficClass);
SAME_OFFSET(ncclConfig_t, commName);
SAME_OFFSET(ncclConfig_t, collnetEnable);
SAME_OFFSET(ncclConfig_t, CTAPolicy);
SAME_OFFSET(ncclConfig_t, shrinkShare);
SAME_OFFSET(ncclConfig_t, nvlsCTAs);
SAME_OFFSET(ncclConfig_t, nChannelsPerNetPeer);
SAME_OFFSET(ncclConfig_t, nvlinkCentricSched);
SAME_OFFSET(ncclSimInfo_t, magic);
SAME_OFFSET(ncclSimInfo_t, estimatedTime);

#define SAME_VALUE(name) static_assert(static_cast<long>(nccl::name) == static_cast<long>(::name))
SAME_VALUE(ncclSuccess);
SAME_VALUE(ncclUnhandledCudaError);
SAME_VALUE(ncclSystemError);
SAME_VALUE(ncclInternalError);
SAME_VALUE(ncclInvalidArgument);
SAME_VALUE(ncclInvalidUsage);
SAME_VALUE(ncclRemoteError);
SAME_VALUE(ncclInProgress);
SAME_VALUE(ncclSum);
SAME_VALUE(ncclProd);
SAME_VALUE(ncclMax);
SAME_VALUE(ncclMin);
SAME_VALUE(ncclAvg);
SAME_VALUE(ncclNumOps);
SAME_VALUE(ncclInt8);
SAME_VALUE(ncclUint8);
SAME_VALUE(ncclInt32);
SAME_VALUE(ncclUint32);
SAME_VALUE(ncclInt64);
SAME_VALUE(ncclUint64);
SAME_VALUE(ncclFloat16);
SAME_VALUE(ncclFloat32);
SAME_VALUE(ncclFloat64);
SAME_VALUE(ncclBfloat16);
SAME_VALUE(ncclFloat8e4m3);
SAME_VALUE(ncclFloat8e5m2);
SAME_VALUE(ncclScalarDevice);
SAME_VALUE(ncclScalarHostImmediate);
static_assert(nccl::no_color == NCCL_SPLIT_NOCOLOR && nccl::undefined_int == NCCL_CONFIG_UNDEF_INT &&
              nccl::undefined_float == NCCL_UNDEF_FLOAT && nccl::shrink_abort == NCCL_SHRINK_ABORT &&
              nccl::window_symmetric == NCCL_WIN_COLL_SYMMETRIC);
// The last number is that of a correction, which changes no types.
static_assert(nccl::version_code / 100 == NCCL_VERSION_CODE / 100);

TEST(NcclToolkit, AClientOfNvidiasHeaderRuns) {
  const auto api = std::make_shared<EmulatedApi>(1);
  gpu::replace_api(api);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.maxCTAs = 2;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess) << ncclGetLastError(nullptr);
  auto* data = reinterpret_cast<float*>(api->allocate(4 * sizeof(float)));
  data[0] = 3;
  auto* stream = static_cast<cudaStream_t>(api->create_stream());
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(data, data + 1, 1, ncclFloat, ncclSum, comm, stream), ncclSuccess);
  ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  ASSERT_EQ(pncclAllReduce(data, data + 2, 1, ncclFloat, ncclSum, comm, stream), ncclSuccess);
  api->synchronize(stream);
  EXPECT_EQ(data[1], 0);
  EXPECT_EQ(data[2], 3);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  api->destroy_stream(stream);
  api->free(reinterpret_cast<std::byte*>(data));
  gpu::replace_api(nullptr);
}

#else

TEST(NcclToolkit, AClientOfNvidiasHeaderRuns) { GTEST_SKIP() << "there is no nccl.h"; }

#endif

}  // namespace
}  // namespace tutti::test
