// Containers have a /dev/shm of 64 MB. What ranks share is no file there, so none will do as well.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

constexpr int not_allowed = 77;

// One page, in a mount namespace of this process and its children.
bool shrink_dev_shm() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4096") == 0;
}

TEST(SmallDevShm, IsNotUsed) {
  Child child([] {
    if (!shrink_dev_shm()) return not_allowed;
    struct statvfs room {};
    EXPECT_EQ(::statvfs("/dev/shm", &room), 0);
    EXPECT_EQ(room.f_blocks * room.f_frsize, 4096U);
    run_processes(4, over("shm"), [](Communicator& comm) {
      constexpr std::size_t count = std::size_t{32} << 20U;  // 128 MiB of all ranks' memory, twice
      const std::vector<std::uint8_t> sum(count, std::uint8_t{4});
      const auto owned = comm.allocate<std::uint8_t>(count);
      std::vector<std::uint8_t> plain(count, std::uint8_t{1});
      std::memset(owned.data(), 1, count);
      comm.all_reduce(std::span(plain));
      comm.all_reduce(owned.span());
      EXPECT_TRUE(plain == sum);
      EXPECT_EQ(std::memcmp(owned.data(), sum.data(), count), 0);
    });
    std::fflush(nullptr);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  const int result = child.wait();
  if (result == not_allowed) GTEST_SKIP() << "this process may not mount a file system of its own";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace tutti::test
