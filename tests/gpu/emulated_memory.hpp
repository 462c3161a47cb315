/// \file
/// What tests of Gpu over the emulated device share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include <tutti/gpu.hpp>

#include "gpu/emulated_api.hpp"
#include "gpu/exercise.hpp"
#include "thrown.hpp"

namespace tutti::test {

/// Memory of an emulated device is the host's.
class EmulatedMemory final : public DeviceMemory {
 public:
  explicit EmulatedMemory(EmulatedApi& api) : api_(api) {}
  std::byte* allocate(std::size_t bytes) override { return api_.allocate(bytes); }
  void free(std::byte* memory) override { api_.free(memory); }
  void put(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void get(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void synchronize(void* stream) override { api_.synchronize(stream); }

 private:
  EmulatedApi& api_;
};

/// The device's wait for `rank` has ended at its deadline, by an error with `text` in it.
inline void expect_missing(Gpu& gpu, Rank rank, const char* text) {
  const auto error = thrown_by([&] { gpu.check(); });
  EXPECT_EQ(error.code, ErrorCode::timeout) << error.text;
  EXPECT_THAT(error.ranks, testing::ElementsAre(rank));
  EXPECT_THAT(error.text, testing::HasSubstr(text));
}

/// Of the error that `call` throws, whose text has `text` in it.
inline ErrorCode code_of(const std::function<void()>& call, const char* text) {
  const auto error = thrown_by(call);
  EXPECT_TRUE(error.code) << "no error about: " << text;
  EXPECT_THAT(error.text, testing::HasSubstr(text));
  return error.code.value_or(ErrorCode::system);
}

/// Of communicators whose calls all end within a minute. `transport`: of the processors.
inline Options quick(const std::string& transport = {}) {
  Options options;
  options.timeout = std::chrono::seconds(60);
  options.transport = transport;
  return options;
}

class GpuTest : public testing::Test {
 public:
  static constexpr GpuOptions small{.blocks = 4, .memory = std::size_t{1} << 20};

 protected:
  GpuTest() { gpu::replace_api(api); }
  ~GpuTest() override { gpu::replace_api(nullptr); }
  GpuTest(const GpuTest&) = delete;
  GpuTest& operator=(const GpuTest&) = delete;

  /// Every so many ranks are a host.
  static constexpr GpuOptions hosts_of(int ranks) {
    GpuOptions options = small;
    options.host_size = ranks;
    return options;
  }
  /// Ranks of one host whose devices do not reach each other.
  static constexpr GpuOptions through_host_memory() {
    GpuOptions options = small;
    options.peer_access = false;
    return options;
  }
  /// A sum that is captured once and replayed five times.
  void replay_a_graph(Communicator& comm, const GpuOptions& options) {
    Gpu gpu(comm, options);
    const gpu::Stream stream = api->create_stream();
    const OnGpu<float> buffer(memory, std::vector<float>(5000, 1));
    api->begin_capture(stream);
    gpu.on(stream).all_reduce(buffer.data(), buffer.data(), 5000, DataType::float32);
    const auto graph = api->end_capture(stream);
    for (int time = 0; time < 5; ++time) api->replay(graph, stream);
    api->synchronize(stream);
    gpu.check();
    EXPECT_EQ(buffer.values(), std::vector<float>(5000, 32));
    comm.barrier();
    api->destroy_stream(stream);
  }
  std::shared_ptr<EmulatedApi> api = std::make_shared<EmulatedApi>(2);
  EmulatedMemory memory{*api};
};

}  // namespace tutti::test
