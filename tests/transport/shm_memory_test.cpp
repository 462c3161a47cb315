// The shared memory of a communicator as the system sees it: what of it takes memory, and what may not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mappings.hpp"
#include "bootstrap/ranks.hpp"
#include "refused_calls.hpp"
#include "sanitized.hpp"
#include "shm_ranks.hpp"
#include "transport/shm/mapped_memory.hpp"

namespace tutti::transport::testing {

namespace {

/// As /proc/self/smaps has it.
struct MappingFacts {
  std::size_t resident_kib = 0;
  std::string flags;
};
MappingFacts mapping_that(const std::function<bool(const std::string&, std::uintptr_t, std::uintptr_t)>& is) {
  MappingFacts facts;
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) here = is(line, from, to);
    if (here && line.rfind("Rss:", 0) == 0) facts.resident_kib = std::stoul(line.substr(4));
    if (here && line.rfind("VmFlags:", 0) == 0) facts.flags = line.substr(8);
  }
  return facts;
}
bool is_dumped(const std::byte* data) {
  const MappingFacts facts = mapping_that([&](const std::string&, std::uintptr_t from, std::uintptr_t to) {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    return from <= at && at < to;
  });
  EXPECT_NE(facts.flags, "");
  return facts.flags.find(" dd") == std::string::npos;
}

constexpr int cannot = 77;
/// Runs `body` in a child, whose exit code is to be 0; or `cannot`, to say that it cannot be tested here.
void expect_in_a_child(const char* why_it_cannot, const std::function<int()>& body) {
  const int code = bootstrap::test::Child(body).wait();
  if (code == cannot) GTEST_SKIP() << why_it_cannot;
  EXPECT_EQ(code, 0);
}

std::size_t resident_kib_of_arena() {
  const auto all = mapping_that([](const std::string& line, std::uintptr_t, std::uintptr_t) {
    return line.find("/memfd:tutti ") != std::string::npos;
  });
  EXPECT_NE(all.flags, "");
  return all.resident_kib;
}

TEST(ShmMemory, OfARankIsNotMoreAmongManyRanks) {
  const auto of_a_rank = [](int ranks) {
    const Transports transports = shm_ranks(ranks);
    return static_cast<double>(resident_kib_of_arena()) / ranks;
  };
  EXPECT_LE(of_a_rank(44), 1.1 * of_a_rank(22));
}

/// One more rank, of another host, that says what rank 0 does: of its host first, behind the size of all.
void add_one_elsewhere(Group& group) {
  group.world.push_back(10 + group.size++);
  group.all_gather = [gather = group.all_gather](std::span<const std::byte> mine) {
    auto all = gather(mine);
    auto theirs = all[0];
    if (theirs.size() > sizeof(std::size_t)) theirs[sizeof(std::size_t)] ^= std::byte{1};
    all.push_back(std::move(theirs));
    return all;
  };
}

// Messages to all ranks are written once only where all are of one host.
TEST(ShmMemory, OfMessagesToAllIsNotTakenWhereSomeAreElsewhere) {
  constexpr int here = 3;
  const auto resident = [](const std::vector<Group>& groups) {
    const Transports transports = shm_ranks_of(groups);
    return resident_kib_of_arena();
  };
  auto groups = local_groups(here);
  for (Group& group : groups) add_one_elsewhere(group);
  constexpr std::size_t of_a_lone_writer = shm::most_units * shm::unit_bytes / 1024;
  const std::size_t of_all = resident(local_groups(here));
  if (of_all < of_a_lone_writer) GTEST_SKIP() << "memory is taken at first use here";
  EXPECT_LE(resident(groups) + of_a_lone_writer, of_all);
}

// A dump would read all of it, and what is read takes memory. Users' own memory they may want to see.
TEST(ShmMemory, IsDumpedOnlyIfItIsTheUsersOwn) {
  const auto arena = shm::Arena::create(2);
  EXPECT_FALSE(is_dumped(arena->at(0)));
  const std::vector<pid_t> two_processes{::getpid(), ::getppid()};
  const std::vector<Rank> ranks{0, 1};
  shm::DirectMemory owner(arena, 0, two_processes, ranks, false), peer(arena, 1, two_processes, ranks, false);
  std::byte* const data = owner.allocate(100);
  EXPECT_TRUE(is_dumped(data));
  const std::byte* const seen = peer.map(0, owner.offer(data, 100));
  ASSERT_NE(seen, data);
  EXPECT_FALSE(is_dumped(seen));
}

TEST(ShmMemory, StaysSparseInAProcessThatLocksItsMemory) {
  expect_in_a_child("no memory can be locked here", [] {
    if (::mlockall(MCL_FUTURE) != 0) return cannot;
    try {
      const auto arena = shm::Arena::create(2);
      *arena->at(0) = std::byte{1};  // it can be written
      struct stat status {};
      if (::fstat(arena->fd(), &status) != 0) return 2;
      return status.st_blocks * 512 < 100'000 ? 0 : 1;
    } catch (const Error&) {
      return cannot;  // its limit is less
    }
  });
}

TEST(ShmMemory, ThatMayNotBeLockedIsRefusedWithTheRemedy) {
  if (sanitized) GTEST_SKIP() << "sanitizers need more";
  expect_in_a_child("no memory can be locked here", [] {
    const rlimit little{std::size_t{1} << 20U, std::size_t{1} << 20U};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0 || (::geteuid() == 0 && ::setuid(65534) != 0) ||
        ::mlockall(MCL_FUTURE) != 0)
      return cannot;
    try {
      shm::Arena::create(2);
    } catch (const Error& error) {
      return std::strstr(error.what(), "ulimit -l") != nullptr ? 0 : 1;
    }
    return 2;
  });
}

// As batch systems limit it that know nothing of memory that is not used.
TEST(ShmMemory, ThatHasNoRoomAmongTheAddressesIsRefusedWithTheRemedy) {
  if (sanitized) GTEST_SKIP() << "sanitizers need more";
  constexpr int many = 128;
  expect_in_a_child("no limit can be set here", [] {
    const rlimit less{shm::Layout(many).mapped_bytes, shm::Layout(many).mapped_bytes};
    if (::setrlimit(RLIMIT_AS, &less) != 0) return cannot;
    try {
      shm::Arena::create(many);
    } catch (const Error& error) {
      return std::strstr(error.what(), "ulimit -v") != nullptr ? 0 : 1;
    }
    return 2;
  });
}

TEST(ShmMemory, ThatIsToBeRegisteredAndHasNoRoomIsRefusedWithTheRemedy) {
  if (sanitized) GTEST_SKIP() << "sanitizers need more";
  expect_in_a_child("no limit can be set here", [] {
    shm::DirectMemory owner(shm::Arena::create(1), 0, {::getpid()}, {0}, false);
    constexpr std::size_t room = std::size_t{16} << 30U;
    const rlimit less{room, room};
    if (::setrlimit(RLIMIT_AS, &less) != 0) return cannot;
    try {
      owner.allocate(2 * room);
    } catch (const Error& error) {
      const std::string text = error.what();
      if (text.find("cannot map registered memory") == std::string::npos) return 1;
      return text.find("ulimit -v") != std::string::npos && text.find("max_map_count") != std::string::npos
                 ? 0
                 : 2;
    }
    return 3;
  });
}

TEST(ShmMemory, ThatHasNoDescriptorIsRefusedWithTheRemedy) {
  expect_in_a_child("no limit can be set here", [] {
    const rlimit nothing{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &nothing) != 0) return cannot;
    const auto of_memory = test::thrown_by([] { shm::Arena::create(1); });
    const auto of_listener = test::thrown_by([] { const shm::Listener listener(shm::Key{}); });
    for (const auto& thrown : {of_memory, of_listener}) {
      const auto at = thrown.text.find("ulimit -n");
      if (thrown.code != ErrorCode::system || at == std::string::npos) return 1;
      if (at != thrown.text.rfind("ulimit -n")) return 2;  // once is enough
    }
    return 0;
  });
}

// Who releases cannot be told that there is no memory left.
TEST(ShmMemory, IsGivenBackByAProcessThatHasNoMemoryLeft) {
  if (sanitized) GTEST_SKIP() << "sanitizers need more";
  expect_in_a_child("no limit can be set here", [] {
    const auto arena = shm::Arena::create(1);
    shm::DirectMemory owner(arena, 0, {::getpid()}, {0}, false);
    std::byte* const first = owner.allocate(100);
    std::byte* const second = owner.allocate(100);
    const rlimit nothing{0, 0};
    if (::setrlimit(RLIMIT_AS, &nothing) != 0) return cannot;
    const auto take_all = [](std::size_t bytes) {
      void* volatile taken = nullptr;
      do {
        taken = ::operator new(bytes, std::nothrow);
      } while (taken != nullptr);
    };
    for (std::size_t bytes = std::size_t{1} << 20U; bytes > 4096; bytes /= 2) take_all(bytes);
    for (std::size_t bytes = 4096; bytes > 0; bytes -= 8) take_all(bytes);
    owner.release(second);
    owner.release(first);
    ::_exit(owner.held() == 0 ? 0 : 1);
  });
}

// Its owner goes on with it.
TEST(ShmMemory, ThatIsRegisteredNoMoreIsItsOwnersAloneAlsoWithoutRoomForACopy) {
  if (sanitized) GTEST_SKIP() << "sanitizers need more";
  expect_in_a_child("no limit can be set here", [] {
    const auto arena = shm::Arena::create(2);
    const std::vector<pid_t> two_processes{::getpid(), ::getppid()};
    shm::DirectMemory owner(arena, 0, two_processes, {0, 1}, false),
        peer(arena, 1, two_processes, {0, 1}, false);
    constexpr std::size_t bytes = std::size_t{16} << 20U;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return cannot;
    auto* const data = static_cast<std::byte*>(memory);
    owner.adopt(data, bytes);
    data[0] = data[bytes - 1] = std::byte{1};
    const std::byte* const seen = peer.map(0, owner.offer(data, bytes));
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit as_it_is{pages * page_bytes() + bytes / 2, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &as_it_is) != 0) return cannot;
    owner.release(data);
    data[0] = std::byte{2};
    if (seen[0] != std::byte{1}) return 1;
    if (data[bytes - 1] != std::byte{1}) return 2;
    std::byte* const other = owner.allocate(bytes / 4);
    other[0] = std::byte{3};
    if (owner.held() != bytes + bytes / 4) return 3;
    return data[0] == std::byte{2} && data[bytes - 1] == std::byte{1} ? 0 : 4;
  });
}

TEST(ShmMemory, ReleasedIsTakenAgain) {
  const auto arena = shm::Arena::create(1);
  shm::DirectMemory owner(arena, 0, {::getpid()}, {0}, false);
  const auto place = [&](const std::byte* data) { return owner.offer(data, 1).region_offset; };
  const std::size_t page = page_bytes();
  std::byte* const first = owner.allocate(page);
  std::byte* const second = owner.allocate(page);
  std::byte* const third = owner.allocate(page);
  const auto beginning = place(first);
  owner.release(second);
  owner.release(first);
  std::byte* const both = owner.allocate(2 * page);
  EXPECT_EQ(place(both), beginning);
  owner.release(third);
  owner.release(both);
  std::byte* const all = owner.allocate(3 * page);
  EXPECT_EQ(place(all), beginning);
  owner.release(all);
  EXPECT_EQ(owner.held(), 0U);
}

// Also where the system cannot take pages out of a file, as in gVisor's sandboxes.
TEST(ShmMemory, TakenAgainIsZeroed) {
  expect_in_a_child("no seccomp filters here", [] {
    try {
      refuse_calls(SYS_fallocate, EOPNOTSUPP, FALLOC_FL_PUNCH_HOLE);
    } catch (const std::system_error&) {
      return cannot;
    }
    shm::DirectMemory owner(shm::Arena::create(1), 0, {::getpid()}, {0}, false);
    std::byte* const first = owner.allocate(100);
    const auto place = owner.offer(first, 1).region_offset;
    first[99] = std::byte{1};
    owner.release(first);
    const std::byte* const again = owner.allocate(100);
    if (owner.offer(again, 1).region_offset != place) return 1;
    return again[99] == std::byte{} ? 0 : 2;
  });
}

/// How much shared memory of communicators this process has mapped, in how many places.
int mappings_of_arenas() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:tutti ") != std::string::npos ? 1 : 0;
  return count;
}

// What a program allocates in turns lies in other places again and again.
TEST(ShmMemory, OfPeersIsNotMappedAnyMoreOnceOtherMemoryLiesThere) {
  const auto arena = shm::Arena::create(2);
  const std::vector<pid_t> two_processes{::getpid(), ::getppid()};
  shm::DirectMemory owner(arena, 0, two_processes, {0, 1}, false),
      peer(arena, 1, two_processes, {0, 1}, false);
  constexpr std::size_t turns = 40, pages = 64;
  const std::size_t page = page_bytes();
  const int before = mappings_of_arenas();
  for (std::size_t turn = 1; turn <= turns; ++turn) {
    std::byte* const first = owner.allocate(turn * page);
    std::byte* const second = owner.allocate(pages * page);
    std::byte* const last = second + pages * page - 1;
    *last = static_cast<std::byte>(turn);
    EXPECT_EQ(*peer.map(0, owner.offer(last, 1)), *last);
    EXPECT_EQ(peer.map(0, owner.offer(last, 1)), peer.map(0, owner.offer(second, 1)) + pages * page - 1);
    owner.release(first);
    owner.release(second);
  }
  EXPECT_LE(mappings_of_arenas(), before + 2);
}

// Smaller and longer than what was there.
TEST(ShmMemory, OfPeersIsFoundWhereItLiesNow) {
  const auto arena = shm::Arena::create(2);
  const std::vector<pid_t> two_processes{::getpid(), ::getppid()};
  shm::DirectMemory owner(arena, 0, two_processes, {0, 1}, false),
      peer(arena, 1, two_processes, {0, 1}, false);
  const std::size_t page = page_bytes();
  const auto seen = [&](std::byte* data) { return peer.map(0, owner.offer(data, 1)); };
  std::byte* const all = owner.allocate(4 * page);
  *all = std::byte{1};
  EXPECT_EQ(*seen(all), std::byte{1});
  owner.release(all);
  std::byte* const first = owner.allocate(page);
  std::byte* const rest = owner.allocate(3 * page);
  *first = std::byte{2}, rest[2 * page] = std::byte{3};
  const std::byte *const first_seen = seen(first), *const rest_seen = seen(rest);
  EXPECT_EQ(*first_seen, std::byte{2});
  EXPECT_EQ(rest_seen[2 * page], std::byte{3});
  EXPECT_EQ(seen(first), first_seen) << "that of a region that still is stays";
  *first = std::byte{4};
  EXPECT_EQ(*first_seen, std::byte{4});
}

/// What is thrown when a rank reads a byte of another one, rank 12 of its group.
test::Thrown thrown_by_reading(pid_t process, const std::byte* at, std::byte* into) {
  const shm::DirectMemory reader(shm::Arena::create(2), 0, {::getpid(), process}, {10, 12}, true);
  return test::thrown_by([&] { reader.read(1, reinterpret_cast<std::uint64_t>(at), into, 1); });
}
test::Thrown thrown_by_reading(pid_t process, const std::byte* at) {
  std::byte into{};
  return thrown_by_reading(process, at, &into);
}

/// Whether this process is let to use attach at all: some containers refuse the call.
bool may_attach() {
  std::byte from{}, to{};
  const iovec mine{&to, 1}, theirs{&from, 1};
  return ::process_vm_readv(::getpid(), &mine, 1, &theirs, 1, 0) == 1;
}

TEST(ShmMemory, OfARankThatHasDiedNamesIt) {
  if (!may_attach()) GTEST_SKIP() << "no cross-memory attach here";
  bootstrap::test::Child child([] { return 0; });
  const pid_t process = child.process();
  ASSERT_EQ(child.wait(), 0);
  const std::byte byte{};
  const auto thrown = thrown_by_reading(process, &byte);
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{12});
}

TEST(ShmMemory, ThatItsOwnerHasFreedNamesIt) {
  const auto thrown = thrown_by_reading(::getpid(), nullptr);
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{12});
  EXPECT_NE(thrown.text.find("rank 12"), std::string::npos) << thrown.text;
}

TEST(ShmMemory, ThatIsCopiedToWhereNothingIsNamesWhoCopies) {
  if (!may_attach()) GTEST_SKIP() << "no cross-memory attach here";
  std::byte here{};
  const auto thrown = thrown_by_reading(::getpid(), &here, nullptr);
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{10});
  EXPECT_NE(thrown.text.find("this rank's memory"), std::string::npos) << thrown.text;
  for (const bool own : {false, true}) {
    std::byte* const nowhere = nullptr;
    shm::AttachedMemory target({own ? nowhere : &here, own ? &here : nowhere, nullptr, 0}, 10, ::getpid(),
                               12);
    for (const bool is_put : {false, true}) {
      const Block byte{.bytes = 1};
      const auto refused = test::thrown_by([&] { is_put ? target.put({&byte, 1}) : target.get({&byte, 1}); });
      EXPECT_EQ(refused.ranks, std::vector<Rank>{own ? 10 : 12}) << refused.text;
    }
  }
}

TEST(ShmMemory, OfOtherProcessesIsWrittenInPlace) {
  if (!may_attach()) GTEST_SKIP() << "no cross-memory attach here";
  const std::vector<std::uint32_t> from{1, 2, 3};
  std::vector<std::uint32_t> into(3);
  const auto write = [&](pid_t process, const void* at) {
    const shm::DirectMemory writer(shm::Arena::create(2), 0, {::getpid(), process}, {10, 12}, true);
    writer.write(1, reinterpret_cast<std::uint64_t>(at), reinterpret_cast<const std::byte*>(from.data()),
                 from.size() * sizeof from[0]);
  };
  write(::getpid(), into.data());
  EXPECT_EQ(into, from);
  static const std::uint32_t constant[3] = {};
  const auto thrown = test::thrown_by([&] { write(::getpid(), constant); });
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{12}) << thrown.text;
}

// Its owner copies from it, too, though by attach no other process can, nor its own.
TEST(ShmMemory, ThatIsSecretIsNotTakenForTheFaultOfWhatItIsCopiedTo) {
#ifdef SYS_memfd_secret
  if (!may_attach()) GTEST_SKIP() << "no cross-memory attach here";
  const FileDescriptor secret(static_cast<int>(::syscall(SYS_memfd_secret, 0)));
  const std::size_t bytes = page_bytes();
  void* memory = MAP_FAILED;
  if (secret && ::ftruncate(secret.get(), static_cast<off_t>(bytes)) == 0)
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, secret.get(), 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "this system has no memfd_secret, or no room in it";
  auto* const mine = static_cast<std::byte*>(memory);
  *mine = std::byte{1};
  shm::AttachedMemory target({mine, nullptr, nullptr, 0}, 10, ::getpid(), 12);
  const Block byte{.bytes = 1};
  const auto thrown = test::thrown_by([&] { target.put({&byte, 1}); });
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{12}) << thrown.text;
  ::munmap(memory, bytes);
#else
  GTEST_SKIP() << "this system has no memfd_secret";
#endif
}

// As where a process gives up its rights once it has made its communicators.
TEST(ShmMemory, ThatMayNotBeReadAnyMoreNamesItsRankAndTheRemedy) {
  expect_in_a_child("no seccomp filters here", [] {
    try {
      refuse_calls(SYS_process_vm_readv, EPERM);
    } catch (const std::system_error&) {
      return cannot;
    }
    const std::byte byte{};
    const auto thrown = thrown_by_reading(::getpid(), &byte);
    if (thrown.code != ErrorCode::system || thrown.ranks != std::vector<Rank>{12}) return 1;
    return thrown.text.find("kernel.yama.ptrace_scope") != std::string::npos ? 0 : 2;
  });
}

TEST(ShmMemory, CannotBeExecutedWhereTheSystemCanForbidIt) {
  constexpr unsigned no_exec = 8;  // MFD_NOEXEC_SEAL
  const FileDescriptor any(static_cast<int>(::syscall(SYS_memfd_create, "any", no_exec)));
  if (!any) GTEST_SKIP() << "this system cannot";
  const auto arena = shm::Arena::create(2);
  struct stat status {};
  ASSERT_EQ(::fstat(arena->fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 0111U, 0U);
  // Linux before 6.3 does not know the flag.
  bootstrap::test::Child child([] {
    refuse_calls(SYS_memfd_create, EINVAL, no_exec);
    return shm::Arena::create(2) != nullptr ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace

}  // namespace tutti::transport::testing
