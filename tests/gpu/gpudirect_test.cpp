// GPUDirect RDMA: ranks on other hosts by a fabric of RDMA devices that exists in memory only, and emulated
// GPUs whose memory its adapters reach, or do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <tutti/gpu.hpp>
#include <tutti/local.hpp>

#include "gpu/carrier.hpp"
#include "gpu/emulated_memory.hpp"
#include "transport/verbs_fake.hpp"
#include "transport/verbs_faulty.hpp"

namespace tutti::test {
namespace {

namespace fabric = transport::testing;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// No adapter can write into the device memory of this thread's rank.
thread_local bool out_of_reach = false;

/// Adapters, and what goes wrong with them and device memory.
class Adapters final : public fabric::ForwardingVerbs {
 public:
  explicit Adapters(std::shared_ptr<EmulatedApi> api, int devices = 1)
      : ForwardingVerbs(fabric::fake_verbs(fabric::fake_devices(devices))), api_(std::move(api)) {}
  /// Nothing gets through any more.
  void cut_off() { fabric::cut_off(*to_, "fake0"); }

  std::atomic<bool> no_peer_memory{false};  ///< ibv_reg_mr does not take addresses of devices
  std::atomic<bool> corrupt{false};         ///< what they read there is wrong
  std::atomic<bool> may_not_write{false};   ///< what they write there is refused
  std::atomic<int> reads{0};                ///< of device memory
  /// Likewise, by the name of the adapter.
  [[nodiscard]] std::map<std::string, int> reads_by_adapter() {
    const std::scoped_lock lock(mutex_);
    return reads_by_adapter_;
  }

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const opened = ForwardingVerbs::open_device(name);
    const std::scoped_lock lock(mutex_);
    names_[opened] = name;
    return opened;
  }
  ibv_mr* reg_mr(ibv_pd* domain, void* at, std::size_t bytes, int access) override {
    if (no_peer_memory && is_device(at)) {
      errno = EFAULT;
      return nullptr;
    }
    return ForwardingVerbs::reg_mr(domain, at, bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t at, int memory,
                        int access) override {
    if (out_of_reach) {
      const std::scoped_lock lock(mutex_);
      out_of_reach_[at] = at + bytes;
    }
    return ForwardingVerbs::reg_dmabuf_mr(domain, offset, bytes, at, memory, access);
  }
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) override {
    for (auto* request = first; request != nullptr; request = request->next) {
      if (request->num_sge == 0 || (request->send_flags & IBV_SEND_INLINE) != 0) continue;
      auto* const from = reinterpret_cast<std::byte*>(request->sg_list[0].addr);
      if (!is_device(from)) continue;
      ++reads;
      {
        const std::scoped_lock lock(mutex_);
        ++reads_by_adapter_[names_.at(pair->context)];
      }
      if (corrupt) from[100] ^= std::byte{1};
      if (may_not_write || is_out_of_reach(request->wr.rdma.remote_addr)) request->wr.rdma.rkey = 1;
    }
    return ForwardingVerbs::post_send(pair, first, bad);
  }

 private:
  [[nodiscard]] bool is_out_of_reach(std::uint64_t at) {
    const std::scoped_lock lock(mutex_);
    const auto next = out_of_reach_.upper_bound(at);
    return next != out_of_reach_.begin() && at < std::prev(next)->second;
  }
  [[nodiscard]] bool is_device(const void* at) {
    return api_->look_at(at).kind == gpu::Pointer::Kind::device;
  }
  std::shared_ptr<EmulatedApi> api_;
  std::mutex mutex_;
  std::map<const ibv_context*, std::string> names_;
  std::map<std::string, int> reads_by_adapter_;
  std::map<std::uint64_t, std::uint64_t> out_of_reach_;  ///< begin and end
};

class GpuDirect : public GpuTest {
 protected:
  GpuDirect() {
    api->dma_bufs = true;
    transport::verbs::replace_verbs(adapters);
  }
  ~GpuDirect() override { transport::verbs::replace_verbs(nullptr); }

  /// All operations over RDMA; `explained`: what each rank says of its ways.
  void expect_right(int ranks, const GpuOptions& gpu_options,
                    const testing::Matcher<const std::string&>& explained) {
    run_local(
        ranks,
        [&](Communicator& comm) {
          Gpu gpu(comm, gpu_options);
          EXPECT_THAT(gpu.explain(), explained);
          for (const std::size_t count : {1, 6007}) exercise(memory, comm, gpu, count);
        },
        quick("verbs"));
    EXPECT_EQ(api->bytes_held(), 0U);
  }

  std::shared_ptr<Adapters> adapters = std::make_shared<Adapters>(api);
};

TEST_F(GpuDirect, AdaptersReadAndWriteDeviceMemory) {
  expect_right(3, hosts_of(1),
               AllOf(HasSubstr("over verbs: from and into device memory (dma-buf)"),
                     Not(HasSubstr("through page-locked host memory"))));
  EXPECT_GT(adapters->reads, 3 * 2 * 12);
  EXPECT_EQ(api->flushes, 0);
}

TEST_F(GpuDirect, OnlyBetweenHosts) {
  expect_right(4, hosts_of(2),
               AllOf(HasSubstr("the same device"), HasSubstr("into device memory (dma-buf)")));
}

TEST_F(GpuDirect, ByAddressWhereThereAreNoDmaBufs) {
  api->dma_bufs = false;
  expect_right(2, hosts_of(1), HasSubstr("from and into device memory (nvidia-peermem)"));
  EXPECT_GT(adapters->reads, 0);
}

TEST_F(GpuDirect, WritesAreFlushedWhereTheDeviceNeedsIt) {
  api->writes = gpu::NetworkWrites::flushed;
  expect_right(2, hosts_of(1), HasSubstr("from and into device memory (dma-buf, flushed)"));
  // Of every message, and once for the parts of a pattern.
  EXPECT_EQ(api->flushes, adapters->reads - 2 * (gpu::direct_carriers - 1));
}

TEST_F(GpuDirect, FifosOfAPairAreSpreadOverAllAdapters) {
  adapters = std::make_shared<Adapters>(api, 2);
  transport::verbs::replace_verbs(adapters);
  ::setenv("TUTTI_VERBS_DEVICES", "all", 1);
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(1));
        EXPECT_THAT(gpu.explain(), HasSubstr("from and into device memory (dma-buf)"));
        exercise(memory, comm, gpu, 100'003);  // in several slices
      },
      quick("verbs"));
  ::unsetenv("TUTTI_VERBS_DEVICES");
  const auto reads = adapters->reads_by_adapter();
  ASSERT_EQ(reads.size(), 2U);
  constexpr int patterns = gpu::direct_carriers;  // of both ranks, on each
  for (const auto& [name, messages] : reads) EXPECT_GT(messages, 10 * patterns) << name;
}

TEST_F(GpuDirect, NotIfTheDeviceNeverSeesThem) {
  api->writes = gpu::NetworkWrites::never;
  expect_right(2, hosts_of(1),
               HasSubstr("through page-locked host memory (the device may not see what adapters write)"));
  EXPECT_EQ(adapters->reads, 0);
}

TEST_F(GpuDirect, NotIfItIsNotWanted) {
  GpuOptions options = hosts_of(1);
  options.gpu_direct = false;
  expect_right(2, options, HasSubstr("through page-locked host memory (GpuOptions::gpu_direct)"));
  EXPECT_EQ(adapters->reads, 0);
}

TEST_F(GpuDirect, MemoryThatIsNotRegisteredIsDoneWithout) {
  api->dma_bufs = false;
  adapters->no_peer_memory = true;
  expect_right(2, hosts_of(1),
               AllOf(HasSubstr("through page-locked host memory"),
                     HasSubstr("by dma-buf: the device has no dma-buf; by nvidia-peermem: Bad address")));
  EXPECT_EQ(adapters->reads, 0);
}

TEST_F(GpuDirect, APathThatCorruptsIsNotTaken) {
  adapters->corrupt = true;
  expect_right(2, hosts_of(1),
               AllOf(HasSubstr("through page-locked host memory"),
                     HasSubstr("into its device memory did not arrive")));
  EXPECT_EQ(adapters->reads, 2 * gpu::direct_carriers);  // the patterns
}

TEST_F(GpuDirect, APathThatBreaksTheConnectionIsNotTaken) {
  adapters->may_not_write = true;
  expect_right(2, hosts_of(1),
               AllOf(HasSubstr("over verbs: through page-locked host memory"),
                     HasSubstr("verbs, fake0 port 1 to rank")));
}

// The transport has all pairs of a rank; of its failures each pair hears its own.
TEST_F(GpuDirect, APathThatBreaksIsThatOfItsPairAlone) {
  run_local(
      3,
      [&](Communicator& comm) {
        out_of_reach = comm.rank() == 2;
        Gpu gpu(comm, hosts_of(1));
        const std::string ways = gpu.explain();
        for (Rank peer = 0; peer < 3; ++peer) {
          if (peer == comm.rank()) continue;
          const auto begin = ways.find("rank " + std::to_string(peer) + " over verbs: ");
          ASSERT_NE(begin, std::string::npos) << ways;
          const bool reached = comm.rank() != 2 && peer != 2;
          EXPECT_THAT(ways.substr(begin, ways.find('\n', begin) - begin),
                      HasSubstr(reached ? "from and into device memory (dma-buf)"
                                        : "through page-locked host memory"));
        }
        for (const std::size_t count : {1, 6007}) exercise(memory, comm, gpu, count);
      },
      quick("verbs"));
}

TEST_F(GpuDirect, AProofThatFailsOnOneRankIsThrownOnAll) {
  static thread_local int streams_left = 1'000'000;
  api->before = [](std::string_view call) {
    if (call == "create_stream" && streams_left-- == 0)
      throw Error(ErrorCode::system, "there are no more streams");
  };
  run_local(
      2,
      [&](Communicator& comm) {
        if (comm.rank() == 1) streams_left = 1;  // for the proof without adapters, not for that of slots
        EXPECT_EQ(code_of([&] { const Gpu gpu(comm, hosts_of(1)); }, "rank 1: there are no more streams"),
                  ErrorCode::system);
        const Gpu gpu(comm, hosts_of(1));
        EXPECT_THAT(gpu.explain(), HasSubstr("from and into device memory (dma-buf)"));
      },
      quick("verbs"));
}

TEST_F(GpuDirect, AConnectionThatBreaksEndsKernels) {
  run_local(
      2,
      [&](Communicator& comm) {
        Gpu gpu(comm, hosts_of(1));
        const OnGpu<float> buffer(memory, 5000);
        comm.barrier();
        if (comm.rank() == 0) adapters->cut_off();
        gpu.on(nullptr).all_reduce(buffer.data(), buffer.data(), 5000, DataType::float32);
        api->synchronize(nullptr);
        for (int time = 0; time < 2; ++time) try {
            gpu.check();
            ADD_FAILURE() << "it was not noticed";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::peer_lost) << error.what();
            EXPECT_EQ(error.ranks().size(), 1U) << error.what();  // who is not reached by the other
          }
      },
      quick("verbs"));
}

TEST_F(GpuDirect, AGraphIsReplayed) {
  run_local(
      2, [&](Communicator& comm) { replay_a_graph(comm, hosts_of(1)); }, quick("verbs"));
}

}  // namespace
}  // namespace tutti::test
