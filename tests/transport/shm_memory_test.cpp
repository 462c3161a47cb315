// The shared memory of a communicator as the system sees it: what of it takes memory, and what may not.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bootstrap/ranks.hpp"
#include "refused_calls.hpp"
#include "sanitized.hpp"
#include "shm_ranks.hpp"

namespace tutti::transport::testing {

namespace {

/// Exit code of a child that runs `body`.
int in_a_child(const std::function<int()>& body) { return bootstrap::test::Child(body).wait(); }

TEST(ShmMemory, CannotBeExecutedWhereTheSystemCanForbidIt) {
  constexpr unsigned no_exec = 8;  // MFD_NOEXEC_SEAL
  const FileDescriptor any(static_cast<int>(::syscall(SYS_memfd_create, "any", no_exec)));
  if (!any) GTEST_SKIP() << "this system cannot";
  const auto arena = shm::Arena::create(2);
  struct stat status {};
  ASSERT_EQ(::fstat(arena->fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 0111U, 0U);
  // Linux before 6.3 does not know the flag.
  EXPECT_EQ(in_a_child([] {
              refuse_calls(SYS_memfd_create, EINVAL, no_exec);
              return shm::Arena::create(2) != nullptr ? 0 : 1;
            }),
            0);
}

}  // namespace

}  // namespace tutti::transport::testing
