/// \file
/// Programs that use NCCL, over the emulated device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "gpu/emulated_api.hpp"
#include "nccl/functions.hpp"

namespace tutti::test {

// NOLINTNEXTLINE(google-build-using-namespace): as a program sees nccl.h
using namespace nccl;

/// Elements in device memory.
template <class T>
class OnDeviceMemory {
 public:
  OnDeviceMemory(EmulatedApi& api, const std::vector<T>& values)
      : api_(api), count_(values.size()), data_(api.allocate(values.size() * sizeof(T) + 1)) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(T));
  }
  ~OnDeviceMemory() { api_.free(data_); }
  OnDeviceMemory(const OnDeviceMemory&) = delete;
  OnDeviceMemory& operator=(const OnDeviceMemory&) = delete;
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(data_); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(count_);
    if (count_ != 0) std::memcpy(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  EmulatedApi& api_;
  std::size_t count_;
  std::byte* data_;
};
using Floats = OnDeviceMemory<float>;

inline constexpr ncclConfig_t initial_config{.size = sizeof(ncclConfig_t),
                                             .magic = config_magic,
                                             .version = version_code,
                                             .blocking = undefined_int,
                                             .cgaClusterSize = undefined_int,
                                             .minCTAs = undefined_int,
                                             .maxCTAs = undefined_int,
                                             .netName = nullptr,
                                             .splitShare = undefined_int,
                                             .trafficClass = undefined_int,
                                             .commName = nullptr,
                                             .collnetEnable = undefined_int,
                                             .CTAPolicy = undefined_int,
                                             .shrinkShare = undefined_int,
                                             .nvlsCTAs = undefined_int,
                                             .nChannelsPerNetPeer = undefined_int,
                                             .nvlinkCentricSched = undefined_int};

class NcclTest : public testing::Test {
 protected:
  NcclTest() {
    ::setenv("TUTTI_TIMEOUT", "60", 1);
    ::setenv("TUTTI_RANK_ORDER", "1", 1);  // one order of reduction, whichever algorithm
    ::setenv("NCCL_MAX_CTAS", "4", 1);     // every block is threads of the host
    gpu::replace_api(api);
  }
  ~NcclTest() override { gpu::replace_api(nullptr); }
  NcclTest(const NcclTest&) = delete;
  NcclTest& operator=(const NcclTest&) = delete;

  /// Ranks as threads, with a stream each: `body(rank, comm, stream)`.
  void on_threads(int ranks, const std::function<void(int, ncclComm_t, cudaStream_t)>& body,
                  bool destroys = true) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        api->set_device(0);
        ncclComm_t comm = nullptr;
        ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
        const gpu::Stream stream = api->create_stream();
        body(rank, comm, stream);
        api->synchronize(stream);
        if (destroys) {
          EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
        }
        api->destroy_stream(stream);
      });
    for (auto& thread : threads) thread.join();
  }

  static ncclResult_t async_error(ncclComm_t comm) {
    ncclResult_t error = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    return error;
  }
  /// The first that is not `while_it_is`, or that after ten seconds.
  static ncclResult_t changed_from(ncclResult_t while_it_is, ncclComm_t comm) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ncclResult_t error = while_it_is;
    while (error == while_it_is && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      error = async_error(comm);
    }
    return error;
  }

  std::shared_ptr<EmulatedApi> api = std::make_shared<EmulatedApi>(2);
};

/// The last error's text says so.
inline void expect_told(const char* text) {
  EXPECT_THAT(ncclGetLastError(nullptr), testing::HasSubstr(text));
}

}  // namespace tutti::test
