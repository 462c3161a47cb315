// Plain buffers that come again are put into huge pages, and no others.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/mappings.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/reused_buffers.hpp"
#include "transport/shm/path_trial.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20, huge = 2 * MiB;

/// A mapping of some huge pages' size at a huge page's boundary, between pages that nobody may touch.
class Pages {
 public:
  explicit Pages(std::size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : mapped_(bytes + 2 * huge), mapping_(::mmap(nullptr, mapped_, PROT_NONE, flags, -1, 0)) {
    const auto first = reinterpret_cast<std::uintptr_t>(mapping_) + 1;
    data_ = static_cast<std::byte*>(mapping_) + ((first + huge - 1) / huge * huge - (first - 1));
    ::mprotect(data_, bytes, PROT_READ | PROT_WRITE);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(mapping_, mapped_); }

  [[nodiscard]] std::byte* data() const { return data_; }
  /// Touched without huge pages, whatever the system does by itself. No advice, or the kernel's own thread
  /// would put them there sooner or later.
  void touch(std::size_t from, std::size_t to) const {
    (void)::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    for (std::size_t i = from; i < to; ++i) data_[i] = static_cast<std::byte>(i * 7 >> 5U);
    (void)::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  }
  /// Likewise; they were not touched before.
  void read(std::size_t from, std::size_t to) const {
    (void)::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    EXPECT_EQ(std::count(data_ + from, data_ + to, std::byte{0}), to - from);
    (void)::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  }
  [[nodiscard]] bool as_touched(std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i)
      if (data_[i] != static_cast<std::byte>(i * 7 >> 5U)) return false;
    return true;
  }
  /// Of what /proc/self/smaps says of the mapping, bytes.
  [[nodiscard]] std::size_t says(const std::string& field) const {
    std::ifstream smaps("/proc/self/smaps");
    bool mine = false;
    for (std::string line; std::getline(smaps, line);) {
      std::uintptr_t from = 0, to = 0;
      if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
        mine = from == reinterpret_cast<std::uintptr_t>(data_);
      else if (mine && line.starts_with(field + ":"))
        return std::stoull(line.substr(field.size() + 1)) << 10U;
    }
    ADD_FAILURE() << "no " << field;
    return 0;
  }
  [[nodiscard]] std::size_t in_huge_pages() const { return says("AnonHugePages"); }

 private:
  std::size_t mapped_;
  void* mapping_;
  std::byte* data_;
};

/// Whether the kernel does as it is asked.
bool can_be_had() {
  if (huge_page_bytes() != huge) return false;
  const Pages probe(huge);
  probe.touch(0, huge);
  return ::madvise(probe.data(), huge, 25) == 0;  // MADV_COLLAPSE
}
#define SKIP_WITHOUT_HUGE_PAGES() \
  if (!can_be_had()) GTEST_SKIP() << "no transparent huge pages on request here (Linux 6.1, not \"never\")"

TEST(HugePages, HoldWhatThePagesHeld) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(4 * huge);
  pages.touch(0, 4 * huge);
  ASSERT_EQ(pages.in_huge_pages(), 0U);
  put_into_huge_pages(pages.data() + huge, huge);
  EXPECT_EQ(pages.in_huge_pages(), huge);
  put_into_huge_pages(pages.data(), 4 * huge);
  EXPECT_EQ(pages.in_huge_pages(), 4 * huge);
  EXPECT_TRUE(pages.as_touched(0, 4 * huge));
}

TEST(HugePages, OfPartOfOneAllOfIt) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(3 * huge);
  pages.touch(0, 3 * huge);
  put_into_huge_pages(pages.data() + huge + 100, 1000);
  EXPECT_EQ(pages.in_huge_pages(), huge);
  put_into_huge_pages(pages.data() + 2 * huge - 1, 2);
  EXPECT_EQ(pages.in_huge_pages(), 2 * huge);
}

TEST(HugePages, AddNoMemory) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(3 * huge);
  pages.touch(0, 2 * huge - page_bytes());  // of the second one a page is missing, of the third all
  const std::size_t before = pages.says("Rss");
  put_into_huge_pages(pages.data(), 3 * huge);
  EXPECT_EQ(pages.in_huge_pages(), huge);
  EXPECT_EQ(pages.says("Rss"), before);
}

// All that was only read is one page of zeros.
TEST(HugePages, AddNoMemoryForZeros) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(3 * huge);
  pages.touch(0, huge);  // where nobody has written yet, the kernel makes none by itself
  pages.read(huge, 3 * huge);
  const std::size_t before = pages.says("Rss");
  put_into_huge_pages(pages.data(), 3 * huge);
  EXPECT_EQ(pages.in_huge_pages(), huge);
  EXPECT_EQ(pages.says("Rss"), before);
}

TEST(HugePages, NotWhatAChildStillShares) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(2 * huge);
  pages.touch(0, 2 * huge);
  {
    const Child child([] { return ::pause(); });
    pages.touch(huge, 2 * huge);
    put_into_huge_pages(pages.data(), 2 * huge);
    EXPECT_EQ(pages.in_huge_pages(), huge);
  }
  put_into_huge_pages(pages.data(), 2 * huge);
  EXPECT_EQ(pages.in_huge_pages(), 2 * huge);
  EXPECT_TRUE(pages.as_touched(0, 2 * huge));
}

TEST(HugePages, NotWhereTheOwnerAdvisedAgainst) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(2 * huge);
  pages.touch(0, 2 * huge);
  ASSERT_EQ(::madvise(pages.data(), 2 * huge, MADV_NOHUGEPAGE), 0);
  put_into_huge_pages(pages.data(), 2 * huge);
  EXPECT_EQ(pages.in_huge_pages(), 0U);
}

TEST(HugePages, NotOfSharedMemory) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(2 * huge, MAP_SHARED | MAP_ANONYMOUS);
  pages.touch(0, 2 * huge);
  const std::size_t before = pages.says("ShmemPmdMapped");
  put_into_huge_pages(pages.data(), 2 * huge);
  EXPECT_EQ(pages.says("ShmemPmdMapped"), before);
  EXPECT_TRUE(pages.as_touched(0, 2 * huge));
}

// Where neighbours are not the owner's, what is whole.
TEST(HugePages, NothingOutsideTheMapping) {
  SKIP_WITHOUT_HUGE_PAGES();
  const Pages pages(3 * huge);
  pages.touch(0, 3 * huge);
  ASSERT_EQ(::mprotect(pages.data(), page_bytes(), PROT_NONE), 0);
  put_into_huge_pages(pages.data() + page_bytes(), 3 * huge - page_bytes());
  ASSERT_EQ(::mprotect(pages.data(), page_bytes(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(pages.in_huge_pages(), 2 * huge);
  EXPECT_TRUE(pages.as_touched(0, 3 * huge));
}

TEST(ReusedBuffers, AreDueAtTheGivenUseAndMuchLater) {
  ReusedBuffers buffers;
  int data = 0;
  std::vector<std::uint32_t> due;
  for (std::uint32_t use = 1; use <= 5 + ReusedBuffers::again + 5; ++use) {
    const auto part = buffers.due(&data, 300, 5);
    if (part.empty()) continue;
    EXPECT_EQ(part.data(), reinterpret_cast<const std::byte*>(&data));
    EXPECT_EQ(part.size(), 300U);
    due.push_back(use);
  }
  EXPECT_EQ(due, (std::vector<std::uint32_t>{5, 5 + ReusedBuffers::again + 5}));
}

TEST(ReusedBuffers, LongOnesInPartsOneAUse) {
  ReusedBuffers buffers;
  const auto* const data = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40U);
  const std::size_t bytes = 2 * ReusedBuffers::most_a_call + 10;
  std::vector<std::size_t> sizes;
  std::size_t next = 0;
  for (int use = 0; use < 10; ++use) {
    const auto part = buffers.due(data, bytes, 3);
    sizes.push_back(part.size());
    if (part.empty()) continue;
    EXPECT_EQ(part.data(), data + next);
    next += part.size();
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 0, ReusedBuffers::most_a_call, ReusedBuffers::most_a_call, 10,
                                             0, 0, 0, 0, 0}));
}

// Shorter uses of a longer buffer touch nothing behind them.
TEST(ReusedBuffers, LongerUsesBeginAnewAndShorterOnesEndSooner) {
  ReusedBuffers buffers;
  int data = 0;
  EXPECT_TRUE(buffers.due(&data, 100, 2).empty());
  EXPECT_TRUE(buffers.due(&data, 200, 2).empty());
  EXPECT_EQ(buffers.due(&data, 150, 2).size(), 150U);
  EXPECT_EQ(buffers.due(&data, 200, 2).size(), 50U);
  EXPECT_TRUE(buffers.due(&data, 200, 2).empty());
  EXPECT_TRUE(buffers.due(&data, 100, 2).empty());
}

// As those of the blocks of a v-form: a call takes no longer, however many there are.
TEST(ReusedBuffers, OfOneCallShareWhatItMayTake) {
  ReusedBuffers buffers;
  const auto* const a = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40U);
  const auto* const b = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 41U);
  const auto* const c = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 42U);
  std::vector<std::vector<std::size_t>> sizes;
  for (int call = 0; call < 5; ++call) {
    std::size_t left = 400;
    auto& of_call = sizes.emplace_back();
    for (const auto* const data : {a, b, c}) {
      of_call.push_back(buffers.due(data, 300, 2, left).size());
      left -= of_call.back();
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::vector<std::size_t>>{
                       {0, 0, 0}, {300, 100, 0}, {0, 200, 200}, {0, 0, 100}, {0, 0, 0}}));
}

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

struct Put {
  std::size_t in = 0, out = 0;
};

// What many calls put into huge pages of input and output, of which they use 4 MiB: less than what reductions
// of three ranks never read by attach anyway.
Put put_by_calls(Communicator& comm, Operation operation, const Pages& in, const Pages& out,
                 std::uint32_t calls) {
  in.touch(0, 4 * huge), out.touch(0, 4 * huge);
  const std::size_t blocks = operation == Operation::all_reduce ? 1 : static_cast<std::size_t>(comm.size());
  const Call call{.operation = operation,
                  .type = DataType::uint8,
                  .in = in.data(),
                  .out = out.data(),
                  .count = 2 * huge / blocks};
  for (std::uint32_t i = 0; i < calls; ++i) issue(comm, call);
  comm.barrier();
  const Put put{in.in_huge_pages(), out.in_huge_pages()};
  EXPECT_TRUE(in.as_touched(0, 4 * huge));
  return put;
}

constexpr std::uint32_t enough_calls = PathTrial::of_long_calls.first_gap / 2;

TEST(HugePages, WhatPeersReadAgainAndAgain) {
  SKIP_WITHOUT_HUGE_PAGES();
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  for (const int ranks : {2, 3})
    run_processes(ranks, over("shm"), [&](Communicator& comm) {
      const Pages a(4 * huge), b(4 * huge), c(4 * huge);
      const Put few = put_by_calls(comm, Operation::all_to_all, a, c, enough_calls - 1);
      EXPECT_EQ(few.in, 0U) << "of few calls";
      const Put moved = put_by_calls(comm, Operation::all_to_all, a, c, enough_calls);
      EXPECT_EQ(moved.in, 2 * huge);
      EXPECT_EQ(moved.out, 0U) << "nobody reads it";
      const Put reduced = put_by_calls(comm, Operation::all_reduce, b, c, enough_calls);
      EXPECT_EQ(reduced.in, ranks == 2 ? 2 * huge : 0) << "reductions of more ranks go by slots";
      EXPECT_EQ(reduced.out, reduced.in);
    });
}

// Each rank writes its block into the root's output.
TEST(HugePages, WhatPeersWriteAgainAndAgain) {
  SKIP_WITHOUT_HUGE_PAGES();
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [&](Communicator& comm) {
    const Pages in(4 * huge), out(4 * huge);
    const Put put = put_by_calls(comm, Operation::gather, in, out, enough_calls);
    EXPECT_EQ(put.in, 0U) << "nobody else reads it";
    EXPECT_EQ(put.out, comm.rank() == 0 ? 2 * huge : 0);
  });
}

// What lies between the blocks of a v-form is not the call's.
TEST(HugePages, OfVFormsTheBlocksAlone) {
  SKIP_WITHOUT_HUGE_PAGES();
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const Pages in(4 * huge), out(2 * huge);
    in.touch(0, 4 * huge), out.touch(0, 2 * huge);
    const std::vector<std::size_t> counts{huge, huge}, apart{0, 3 * huge}, packed{0, huge};
    for (std::uint32_t i = 0; i < enough_calls; ++i)
      comm.all_to_all_v(in.data(), counts, apart, out.data(), counts, packed, DataType::uint8);
    comm.barrier();
    EXPECT_EQ(in.in_huge_pages(), 2 * huge);
    EXPECT_EQ(out.in_huge_pages(), 0U) << "nobody reads it";
    EXPECT_TRUE(in.as_touched(0, 4 * huge));
  });
}

TEST(HugePages, WhatIsSentAgainAndAgain) {
  SKIP_WITHOUT_HUGE_PAGES();
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(3, over("shm"), [&](Communicator& comm) {
    const Pages out(4 * huge), in(4 * huge);
    out.touch(0, 4 * huge), in.touch(0, 4 * huge);
    for (std::uint32_t message = 1; message <= enough_calls; ++message) {
      if (comm.rank() == 0) comm.send(out.data(), 2 * huge, DataType::uint8, 1);
      if (comm.rank() == 1) comm.receive(in.data(), 2 * huge, DataType::uint8, 0);
      EXPECT_EQ(out.in_huge_pages(), comm.rank() == 0 && message == enough_calls ? 2 * huge : 0);
    }
    EXPECT_EQ(in.in_huge_pages(), 0U) << "nobody reads it";
    EXPECT_TRUE(out.as_touched(0, 4 * huge) && in.as_touched(0, 4 * huge));
  });
}

TEST(HugePages, NotAgainstTheOption) {
  SKIP_WITHOUT_HUGE_PAGES();
  Options options = over("shm");
  options.huge_pages = false;
  run_processes(2, options, [](Communicator& comm) {
    const Pages in(4 * huge), out(4 * huge);
    EXPECT_EQ(put_by_calls(comm, Operation::all_to_all, in, out, enough_calls).in, 0U);
    for (std::uint32_t message = 0; message < enough_calls; ++message) {
      if (comm.rank() == 0) comm.send(in.data(), 2 * huge, DataType::uint8, 1);
      if (comm.rank() == 1) comm.receive(in.data(), 2 * huge, DataType::uint8, 0);
    }
    EXPECT_EQ(in.in_huge_pages(), 0U);
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
