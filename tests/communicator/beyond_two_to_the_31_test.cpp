// Calls of more than 2^31 elements, whole: in memory that shows the same pages again and again, so that they
// take time, but no room.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/mappings.hpp"
#include "base/memory_file.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t repeated = std::size_t{1} << 31;
constexpr std::size_t count = repeated + 3;

// `repeated` bytes, which are the same few over and over, and a page of its own behind them. The few are not
// a power of two: bytes at an offset that lost its upper bits are others.
class Folded {
 public:
  Folded() : file_(make_memory_file("folded")) {
    if (file_.get() < 0 || ::ftruncate(file_.get(), static_cast<off_t>(period())) != 0) return;
    void* const at = ::mmap(nullptr, repeated + page_bytes(), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    data_ = static_cast<std::uint8_t*>(at);
    mapped_ = ::mprotect(data_ + repeated, page_bytes(), PROT_READ | PROT_WRITE) == 0;
    for (std::size_t from = 0; mapped_ && from < repeated; from += period())
      mapped_ = ::mmap(data_ + from, std::min(period(), repeated - from), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, file_.get(), 0) != MAP_FAILED;
  }
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;
  ~Folded() {
    if (data_ != nullptr) ::munmap(data_, repeated + page_bytes());
  }
  [[nodiscard]] bool ready() const { return mapped_; }
  [[nodiscard]] std::uint8_t* data() const { return data_; }
  /// `seed` tells contents apart.
  static std::uint8_t value(std::size_t i, unsigned seed) {
    const std::size_t within = i < repeated ? i % period() : i;
    return static_cast<std::uint8_t>((within * 5 + within / 4099) % 100 + seed);
  }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < period(); ++i) data_[i] = value(i, seed);
    for (std::size_t i = repeated; i < repeated + page_bytes(); ++i) data_[i] = value(i, seed);
  }
  void clear() {
    std::memset(data_, 0xFF, period());
    std::memset(data_ + repeated, 0xFF, page_bytes());
  }
  /// How many of the first `elements`, at least `repeated`, are not as `right` says.
  template <class Right>
  [[nodiscard]] std::size_t wrong(std::size_t elements, Right right) const {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < period(); ++i) wrong += data_[i] != right(i) ? 1 : 0;
    for (std::size_t i = repeated; i < elements; ++i) wrong += data_[i] != right(i) ? 1 : 0;
    return wrong;
  }

 private:
  static std::size_t period() { return 4099 * page_bytes(); }
  FileDescriptor file_;
  std::uint8_t* data_ = nullptr;
  bool mapped_ = false;
};

void exercise(Communicator& comm) {
  Folded in, out;
  ASSERT_TRUE(in.ready() && out.ready());
  const bool first = comm.rank() == 0;
  in.fill(first ? 0 : 9);
  const auto is = [](unsigned seed) { return [seed](std::size_t i) { return Folded::value(i, seed); }; };

  out.clear();
  comm.all_reduce(in.data(), out.data(), count, DataType::uint8, ReduceOp::sum);
  EXPECT_EQ(out.wrong(count, [](std::size_t i) { return Folded::value(i, 0) + Folded::value(i, 9); }), 0U);

  out.clear();
  if (first)
    comm.send(in.data(), count, DataType::uint8, 1);
  else
    comm.receive(out.data(), count, DataType::uint8, 0);
  EXPECT_EQ(first ? 0 : out.wrong(count, is(0)), 0U);

  out.clear();
  const std::size_t counts[] = {5, count};
  const std::size_t displacements[] = {count, 0};
  comm.all_gather_v(in.data(), out.data(), counts, displacements, DataType::uint8);
  EXPECT_EQ(out.wrong(count, is(9)), 0U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(out.data()[count + i], Folded::value(i, 0));

  if (!first) in.clear();
  comm.broadcast(out.data(), in.data(), count, DataType::uint8, 0);
  EXPECT_EQ(first ? 0 : in.wrong(count, is(9)), 0U);
}

TEST(BeyondTwoToThe31, ThreadsOverEachTransport) {
  if (sanitized) GTEST_SKIP() << "takes minutes under sanitizers";
  for (const char* transport : {"shm", "tcp"}) run_local(2, exercise, over(transport, 120s));
}

TEST(BeyondTwoToThe31, Processes) {
  if (sanitized) GTEST_SKIP() << "takes minutes under sanitizers";
  run_processes(2, over("shm", 120s), exercise);
}

}  // namespace
}  // namespace tutti::test
