// Memory that is registered with devices: by whom it is held, and until when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

#include "base/fork_guard.hpp"
#include "base/mappings.hpp"
#include "bootstrap/ranks.hpp"
#include "thrown.hpp"
#include "transport/few_allocations.hpp"
#include "transport/verbs/memory.hpp"
#include "verbs_fake.hpp"
#include "verbs_faulty.hpp"

namespace tutti::transport::testing {

namespace {

using ::testing::HasSubstr;

class VerbsMemory : public ::testing::Test {
 protected:
  const std::size_t page = page_bytes();
  std::shared_ptr<verbs::Verbs> fake = fake_verbs(fake_devices(1));
  verbs::Context context{fake->open_device("fake0"), {fake.get()}};
  verbs::Domain domain{fake->alloc_pd(context.get()), {fake.get()}};
  verbs::MemoryCache cache{*fake, {domain.get()}};
  std::byte* memory = static_cast<std::byte*>(std::aligned_alloc(page, 16 * page));
  void TearDown() override { std::free(memory); }
  [[nodiscard]] std::uint64_t registered() const { return counters_of(*fake).registered; }
};

TEST_F(VerbsMemory, WholePagesAreRegistered) {
  const auto lease = cache.acquire(memory + 100, 10);
  EXPECT_NE(cache.find(memory, page), nullptr);
  EXPECT_EQ(cache.find(memory, page + 1), nullptr);
  EXPECT_EQ(cache.find(memory + page, 1), nullptr);
}

// Where `a` was, other pages may be mapped next.
TEST_F(VerbsMemory, ARangeThatIsReleasedIsNotFound) {
  auto a = cache.acquire(memory, 2 * page);
  const auto touching = cache.acquire(memory + 2 * page, page);
  const auto overlapping = cache.acquire(memory + page, page);
  EXPECT_EQ(cache.find(memory, 2 * page)->begin(), memory);
  a.reset();
  EXPECT_EQ(cache.find(memory, page), nullptr);
  EXPECT_EQ(registered(), 2U);
  a = cache.acquire(memory, 2 * page);
  EXPECT_EQ(registered(), 3U) << "anew";
  EXPECT_NE(cache.find(memory, 2 * page), nullptr);
  EXPECT_EQ(cache.find(memory, 3 * page), nullptr) << "across two";
}

TEST_F(VerbsMemory, WhatAShorterRangeHidesIsFound) {
  const auto whole = cache.acquire(memory, 4 * page);
  const auto inner = cache.acquire(memory + page, page);
  EXPECT_NE(cache.find(memory + page, 2 * page), nullptr);
}

TEST_F(VerbsMemory, TheLastOwnerEndsIt) {
  auto a = cache.acquire(memory, 2 * page);
  auto b = cache.acquire(memory, page);
  a.reset();
  EXPECT_NE(cache.find(memory, page), nullptr);
  b.reset();
  EXPECT_EQ(cache.find(memory, page), nullptr);
  EXPECT_EQ(registered(), 0U);
}

// Nobody would end it, and other pages may be mapped there.
TEST_F(VerbsMemory, WithoutMemoryForItsLeaseNothingStaysRegistered) {
  std::shared_ptr<void> lease;
  for (int allocations = 0; lease == nullptr; ++allocations) {
    try {
      const FewAllocations few(allocations);
      lease = cache.acquire(memory, page);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(registered(), 0U) << allocations;
      EXPECT_EQ(cache.find(memory, page), nullptr) << allocations;
    }
  }
  EXPECT_EQ(registered(), 1U);
}

TEST_F(VerbsMemory, WhatIsBeingSentStaysRegistered) {
  auto lease = cache.acquire(memory, page);
  auto in_use = cache.find(memory, page);
  lease.reset();
  EXPECT_EQ(cache.find(memory, page), nullptr);
  EXPECT_EQ(registered(), 1U);
  in_use.reset();
  EXPECT_EQ(registered(), 0U);
}

TEST_F(VerbsMemory, ALeaseMayOutliveTheCache) {
  std::shared_ptr<verbs::MemoryCache::Lease> lease;
  {
    verbs::MemoryCache other(*fake, {domain.get()});
    lease = other.acquire(memory, page);
  }
  lease.reset();
  EXPECT_EQ(registered(), 0U);
}

// As libibverbs has it on kernels before 5.12: what is registered is not in a child, and other memory may be
// there.
TEST_F(VerbsMemory, ABlockOfTheParentUnmapsNothingInAChild) {
  install_fork_guard();
  auto block =
      std::make_unique<verbs::Block>(*fake, verbs::Domains{domain.get()}, page, verbs::Access::local_read);
  ASSERT_EQ(::madvise(block->data(), block->bytes(), MADV_DONTFORK), 0);
  bootstrap::test::Child child([&] {
    const std::size_t bytes = block->bytes();
    void* const there = ::mmap(block->data(), bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (there != block->data()) return 2;
    block.reset();
    return ::msync(there, bytes, MS_ASYNC) == 0 ? 0 : 1;  // 1: it is not mapped
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Takes its time to deregister memory, and sees whether its user waits for that.
class SlowVerbs final : public ForwardingVerbs {
 public:
  using ForwardingVerbs::ForwardingVerbs;
  int dereg_mr(ibv_mr* region) override {
    began.set_value();
    waited =
        user_went_on.get_future().wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout;
    return to_->dereg_mr(region);
  }
  std::promise<void> began, user_went_on;
  bool waited = false;
};

TEST_F(VerbsMemory, ACacheWaitsForALeaseThatEnds) {
  SlowVerbs slow(fake);
  auto other = std::make_unique<verbs::MemoryCache>(slow, verbs::Domains{domain.get()});
  auto lease = other->acquire(memory, page);
  std::jthread ending([&] { lease.reset(); });
  slow.began.get_future().wait();
  other.reset();
  slow.user_went_on.set_value();
  ending.join();
  EXPECT_TRUE(slow.waited) << "the cache was gone while memory was deregistered";
  EXPECT_EQ(registered(), 0U);
}

TEST_F(VerbsMemory, RefusalNamesTheLimit) {
  auto faults = std::make_shared<VerbsFaults>();
  FaultyVerbs faulty(fake, faults);
  verbs::MemoryCache other(faulty, {domain.get()});
  const std::pair<int, const char*> refusals[] = {
      {ENOMEM, "ulimit -l"}, {EPERM, "ulimit -l"}, {EAGAIN, "rdma.max"}};
  for (const auto& [code, limit] : refusals) {
    faults->register_error = code;
    const auto error = test::thrown_by([&] { static_cast<void>(other.acquire(memory, page)); });
    EXPECT_THAT(error.text, HasSubstr(limit));
  }
  EXPECT_EQ(faults->fired, 3);
}

}  // namespace

}  // namespace tutti::transport::testing
