// Buffers that peers reach directly. Ranks are processes: threads reach each other's memory anyway.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/mappings.hpp"
#include "communicator/bytes_of_arenas.hpp"
#include "communicator/exercise.hpp"
#include "communicator/page_faults.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

const std::size_t page = page_bytes();
constexpr std::size_t buffer_bytes = std::size_t{6} << 20;
constexpr std::size_t enough = 140'003;      ///< float32: even half as many gain by the direct path
constexpr std::size_t control_bytes = 4096;  ///< what ranks tell each other about where their buffers are

/// Runs one exercise in the given memory and checks by which way the data went.
void expect_path(Communicator& comm, const Exercise& exercise, std::byte* in, std::byte* out, bool direct) {
  const Trial trial(exercise, comm.rank(), comm.size(), in, out);
  const Stats before = comm.stats();
  issue(comm, trial.call());
  const Stats after = comm.stats();
  EXPECT_EQ(trial.wrong(), "");
  if (direct) {
    EXPECT_LT(after.bytes_copied - before.bytes_copied, control_bytes) << to_string(exercise);
  } else {
    EXPECT_EQ(after.bytes_direct, before.bytes_direct) << to_string(exercise);
  }
  // Somebody has touched somebody's memory.
  std::uint64_t touched = after.bytes_direct - before.bytes_direct;
  comm.all_reduce(std::span(&touched, 1));
  EXPECT_EQ(touched != 0, direct) << to_string(exercise);
}

void expect_all_direct(Communicator& comm, std::byte* in, std::byte* out) {
  for (std::uint32_t seed = 1; seed < 3; ++seed)
    for (const Operation operation : data_operations())
      expect_path(comm, {.operation = operation, .count = enough / 2 + seed, .root = 1, .seed = seed}, in,
                  out, true);
}

TEST(ZeroCopy, AllocatedMemoryIsReachedByEveryOperation) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<std::uint8_t>(buffer_bytes), b = comm.allocate<std::uint8_t>(buffer_bytes);
    EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0U), 0U);
    EXPECT_GE(comm.stats().memory_held, 2 * buffer_bytes);
    expect_all_direct(comm, reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
    const Call call{.operation = Operation::all_gather, .in = a.data(), .out = b.data(), .count = 1 << 20};
    EXPECT_NE(comm.explain(call).find("zero copy: direct"), std::string::npos);
    EXPECT_NE(comm.duplicate().explain(call).find("zero copy: no: no memory was allocated or registered"),
              std::string::npos);
  });
}

// A rank that waits for others to fetch touches nothing.
TEST(ZeroCopy, AllRanksShareTheWork) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<float>(6 * enough), b = comm.allocate<float>(6 * enough);
    for (const Operation operation :
         {Operation::broadcast, Operation::reduce, Operation::all_reduce, Operation::all_gather}) {
      const Trial trial({.operation = operation, .count = 2 * enough, .root = 1}, comm.rank(), comm.size(),
                        reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
      const auto before = comm.stats().bytes_direct;
      issue(comm, trial.call());
      EXPECT_EQ(trial.wrong(), "");
      EXPECT_GT(comm.stats().bytes_direct, before) << name(operation);
    }
  });
}

TEST(ZeroCopy, InPlace) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<std::uint8_t>(buffer_bytes), b = comm.allocate<std::uint8_t>(buffer_bytes);
    for (const Operation operation : data_operations()) {
      if (!can_be_in_place(operation)) continue;
      // A block of all_to_all would be overwritten before its reader has it.
      const bool direct = operation != Operation::all_to_all;
      expect_path(comm, {.operation = operation, .count = enough, .in_place = true, .root = 2},
                  reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()), direct);
    }
  });
}

TEST(ZeroCopy, OneRankInPlaceOrElsewhere) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<std::uint8_t>(buffer_bytes), b = comm.allocate<std::uint8_t>(buffer_bytes);
    std::vector<std::byte> c(buffer_bytes), d(buffer_bytes);
    for (const Operation operation : data_operations()) {
      const bool odd = comm.rank() == 1;
      const bool in_place = odd && can_be_in_place(operation);
      const bool direct = operation != Operation::all_to_all;
      expect_path(comm, {.operation = operation, .count = enough, .in_place = in_place},
                  reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()), direct);
      // One rank's memory is nowhere mapped: messages, or where that pays cross-memory attach. Of an
      // all_to_all_v each block goes as its two ends can (WholeBlocks).
      if (operation == Operation::all_to_all || operation == Operation::all_to_all_v) continue;
      expect_path(comm, {.operation = operation, .count = enough, .root = 1},
                  odd ? c.data() : reinterpret_cast<std::byte*>(a.data()),
                  odd ? d.data() : reinterpret_cast<std::byte*>(b.data()), false);
    }
  });
}

TEST(ZeroCopy, RegisteredMemoryKeepsItsContentsAndAddress) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const std::unique_ptr<std::byte, decltype(&std::free)> a(
        static_cast<std::byte*>(std::aligned_alloc(page, buffer_bytes)), &std::free),
        b(static_cast<std::byte*>(std::aligned_alloc(page, buffer_bytes)), &std::free);
    std::vector<std::byte> pattern(buffer_bytes);
    for (std::size_t i = 0; i < buffer_bytes; ++i) pattern[i] = static_cast<std::byte>(i * 11 + i / 257);
    const auto fill = [&] { std::memcpy(a.get(), pattern.data(), buffer_bytes); };
    const auto is_kept = [&] { return std::memcmp(a.get(), pattern.data(), buffer_bytes) == 0; };
    fill();
    for (int round = 0; round < 2; ++round) {
      {
        const Registration first = comm.register_memory(a.get(), buffer_bytes);
        EXPECT_TRUE(is_kept());
        const Registration second = comm.register_memory(b.get(), buffer_bytes);
        expect_all_direct(comm, a.get(), b.get());
        fill();
        comm.barrier();
      }
      EXPECT_TRUE(is_kept());
      expect_path(comm, {.count = enough}, b.get(), b.get() + buffer_bytes / 2, false);
      fill();
    }
  });
}

// Its peers go on putting into the pages that they have mapped.
TEST(ZeroCopy, MemoryOfAWindowStaysRegistered) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(page, 2 * page)), &std::free);
    std::memset(memory.get(), 0, 2 * page);
    const Rank other = 1 - comm.rank();
    {
      auto registration = comm.register_memory(memory.get(), 2 * page);
      auto buffer = comm.allocate<std::uint8_t>(page);
      Window of_registered(comm, std::span(memory.get() + page, page)), of_allocated(comm, buffer);
      const std::span<std::uint8_t> allocated = buffer.span();
      registration = {};
      buffer = {};
      comm.barrier();
      memory.get()[page] = static_cast<std::byte>(comm.rank() + 7);
      allocated[0] = static_cast<std::uint8_t>(comm.rank() + 9);
      for (Window* const window : {&of_registered, &of_allocated}) {
        EXPECT_EQ(window->path(other), "shared memory, mapped");
        window->put(other, {.local = 0, .remote = 1, .bytes = 1}, {.notify = 0});
        window->wait_notification(0, 1, other);
      }
      EXPECT_EQ(memory.get()[page + 1], static_cast<std::byte>(other + 7));
      EXPECT_EQ(allocated[1], other + 9);
      comm.barrier();
    }
    EXPECT_EQ(memory.get()[page + 1], static_cast<std::byte>(other + 7)) << "it has pages of its own again";
    {
      auto registration = comm.register_memory(memory.get(), page);
      const Window of_more(comm, std::span(memory.get(), 2 * page));
      registration = {};
      EXPECT_FALSE(private_anonymous(memory.get(), page)) << "as a part of a window, too";
      comm.barrier();
    }
    EXPECT_TRUE(private_anonymous(memory.get(), page));
  });
}

// What is put while its pages are replaced would be lost.
TEST(ZeroCopy, MemoryOfAWindowIsNotRegistered) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(page, 2 * page)), &std::free);
    {
      const Window window(comm, std::span(memory.get() + page, 1));
      const auto thrown = thrown_by([&] { static_cast<void>(comm.register_memory(memory.get(), 2 * page)); });
      EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
      EXPECT_NE(thrown.text.find("before the window is made"), std::string::npos) << thrown.text;
      EXPECT_NO_THROW(static_cast<void>(comm.register_memory(memory.get(), page))) << "it is beside it";
      comm.barrier();
    }
    EXPECT_NO_THROW(static_cast<void>(comm.register_memory(memory.get(), 2 * page))) << "the window is gone";
  });
}

// What peers read of it is the same in its old pages and in those that take their place.
TEST(ZeroCopy, MemoryIsRegisteredWhileACallUnderWayReadsIt) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    constexpr std::size_t count = std::size_t{1} << 18U, bytes = count * sizeof(float);
    const std::unique_ptr<float, decltype(&std::free)> memory(
        static_cast<float*>(std::aligned_alloc(page, bytes)), &std::free);
    const std::span<float> in(memory.get(), count);
    std::vector<float> out(2 * count);
    // The first is, and each is as the one before: at once, since sanitizers look at every access.
    const auto are_all = [](std::span<const float> values, float value) {
      return values.front() == value &&
             std::memcmp(values.data(), values.data() + 1, values.size_bytes() - sizeof(float)) == 0;
    };
    for (int round = 1; round < 20; ++round) {
      const auto of_rank = [round](Rank rank) { return static_cast<float>(2 * round + rank); };
      std::ranges::fill(in, of_rank(comm.rank()));
      Work work = comm.async().all_gather(in, out);
      { const Registration registration = comm.register_memory(memory.get(), bytes); }
      work.wait();
      EXPECT_TRUE(are_all(in, of_rank(comm.rank()))) << round;
      EXPECT_TRUE(are_all(std::span(out).first(count), of_rank(0))) << round;
      EXPECT_TRUE(are_all(std::span(out).last(count), of_rank(1))) << round;
    }
  });
}

// In each other's memory, and by messages: other counts, and other places in it, in each call.
TEST(ZeroCopy, VFormsAreTriedBothWays) {
  run_processes(4, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<std::uint8_t>(buffer_bytes), b = comm.allocate<std::uint8_t>(buffer_bytes);
    std::vector<std::byte> plain_in(buffer_bytes), plain_out(buffer_bytes);
    for (const Operation operation :
         {Operation::all_to_all_v, Operation::all_gather_v, Operation::reduce_scatter_v})
      for (const bool registered : {true, false}) {
        std::byte* const in = registered ? reinterpret_cast<std::byte*>(a.data()) : plain_in.data();
        std::byte* const out = registered ? reinterpret_cast<std::byte*>(b.data()) : plain_out.data();
        const auto before = comm.stats().bytes_direct;
        for (std::uint32_t seed = 1; seed < 40; ++seed) {
          const Trial trial({.operation = operation, .count = 20'000, .seed = seed}, comm.rank(), comm.size(),
                            in, out);
          issue(comm, trial.call());
          ASSERT_EQ(trial.wrong(), "") << name(operation) << " " << seed;
          comm.barrier();
        }
        if (registered) {
          EXPECT_GT(comm.stats().bytes_direct, before) << name(operation);
        }
      }
  });
}

// Rank 2 gets nothing of rank 1, whose memory is the only plain one, and yet must not take it for reachable.
TEST(ZeroCopy, AllRanksAgreeWhereSomeSeeNothingOfPlainMemory) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    constexpr std::size_t block = 50'000;
    const auto a = comm.allocate<float>(3 * block), b = comm.allocate<float>(3 * block);
    std::vector<float> plain(3 * block);
    const std::span<float> in = comm.rank() == 1 ? std::span(plain) : a.span();
    std::fill(in.begin(), in.end(), static_cast<float>(comm.rank() + 1));
    const std::vector<std::size_t> places{0, block, 2 * block};
    std::vector<std::size_t> in_counts(3, block), out_counts(3, block);
    if (comm.rank() == 1) in_counts[2] = 0;
    if (comm.rank() == 2) out_counts[1] = 0;
    for (int call = 0; call < 40; ++call) {
      std::fill(b.begin(), b.end(), 0.0F);
      comm.all_to_all_v(in, in_counts, places, b.span(), out_counts, places);
      for (std::size_t r = 0; r < 3; ++r)
        ASSERT_EQ(b[places[r]], out_counts[r] == 0 ? 0.0F : static_cast<float>(r + 1)) << call;
    }
    comm.barrier();
  });
}

// No message tells how long what is read from a peer's memory is.
TEST(ZeroCopy, SizesThatDifferAreFoundInEachOthersMemoryToo) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<float>(1'000'000), b = comm.allocate<float>(1'000'000);
    const std::vector<std::size_t> right{100'000, 200'000}, wrong{100'000, 200'001};
    const auto exchange = [&](const std::vector<std::size_t>& in_counts) {
      const std::vector<std::size_t> places{0, 300'000};
      const std::vector<std::size_t> out_counts(2, right[static_cast<std::size_t>(comm.rank())]);
      comm.all_to_all_v(a.span(), in_counts, places, b.span(), out_counts, places);
    };
    std::uint64_t before = 0;
    while (comm.stats().bytes_direct == before) exchange(right);
    const Thrown thrown = thrown_by([&] { exchange(comm.rank() == 0 ? wrong : right); });
    EXPECT_EQ(thrown.code, ErrorCode::mismatch) << thrown.text;
    EXPECT_NE(thrown.text.find("all_to_all_v"), std::string::npos) << thrown.text;
  });
}

TEST(ZeroCopy, MemoryThatCannotBeSharedIsRefused) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(page, 4 * page)), &std::free);
    const auto code_of = [&](void* data, std::size_t bytes) {
      return thrown_by([&] { static_cast<void>(comm.register_memory(data, bytes)); }).code;
    };
    EXPECT_EQ(code_of(memory.get() + 64, page), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(memory.get(), page + 1), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(memory.get(), 0), ErrorCode::invalid_argument);
    void* shared = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(code_of(shared, page), ErrorCode::invalid_argument);
    std::FILE* file = std::tmpfile();
    ASSERT_EQ(::ftruncate(::fileno(file), page), 0);
    void* mapped = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, ::fileno(file), 0);
    EXPECT_EQ(code_of(mapped, page), ErrorCode::invalid_argument);
    void* read_only = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(code_of(read_only, page), ErrorCode::invalid_argument);
    const Registration once = comm.register_memory(memory.get(), 4 * page);
    EXPECT_EQ(code_of(memory.get(), page), ErrorCode::invalid_argument);
    Communicator other = comm.duplicate();
    EXPECT_EQ(thrown_by([&] { static_cast<void>(other.register_memory(memory.get(), 4 * page)); }).code,
              ErrorCode::invalid_argument);
    EXPECT_EQ(
        thrown_by([&] { static_cast<void>(comm.allocate<double>(static_cast<std::size_t>(-1) / 4)); }).code,
        ErrorCode::invalid_argument);
    expect_right(comm, {.count = enough});
    for (void* one : {shared, mapped, read_only}) ::munmap(one, page);
    std::fclose(file);
  });
}

TEST(ZeroCopy, RegionsComeAndGoWithOtherSizes) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    for (std::uint32_t round = 1; round < 12; ++round) {
      const std::size_t bytes = (round % 4 + 1) * 300'000;
      auto a = comm.allocate<std::uint8_t>(bytes);
      auto b = comm.allocate<std::uint8_t>(bytes);
      EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0U), 0U) << "not zeroed";
      expect_path(comm, {.count = bytes / 4, .seed = round}, reinterpret_cast<std::byte*>(a.data()),
                  reinterpret_cast<std::byte*>(b.data()), true);
      comm.barrier();
    }
  });
}

TEST(ZeroCopy, AsynchronousAndBesideMessages) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto a = comm.allocate<std::uint8_t>(buffer_bytes), b = comm.allocate<std::uint8_t>(buffer_bytes);
    Async async = comm.async();
    for (std::uint32_t round = 1; round < 8; ++round) {
      const Trial direct({.count = enough, .seed = round}, comm.rank(), comm.size(),
                         reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
      const Trial copied({.operation = Operation::all_to_all, .count = 9000, .seed = round}, comm.rank(),
                         comm.size());
      Work first = issue(async, direct.call()), second = issue(async, copied.call());
      expect_right(comm, {.operation = Operation::broadcast, .count = 20'000, .seed = round});
      second.wait();
      first.wait();
      EXPECT_EQ(direct.wrong() + copied.wrong(), "");
      comm.barrier();
    }
  });
}

// Of a rank's buffers, only where the input of a send lies matters.
TEST(ZeroCopy, MessagesAreCopiedOnceFromAllocatedMemory) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    constexpr std::size_t count = 50'001;
    const auto to_send = comm.allocate<std::uint32_t>(count);
    std::vector<std::uint32_t> received(count);
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    const auto value = [](int rank, std::uint32_t round, std::size_t i) {
      return static_cast<std::uint32_t>(i) * 7 + round * 1000 + static_cast<std::uint32_t>(rank);
    };
    const auto is_right = [&](std::uint32_t round) {
      for (std::size_t i = 0; i < count; ++i)
        if (received[i] != value(previous, round, i)) return false;
      return true;
    };
    for (std::uint32_t round = 0; round < 12; ++round) {
      for (std::size_t i = 0; i < count; ++i) to_send[i] = value(comm.rank(), round, i);
      const Stats before = comm.stats();
      if (round % 2 == 0) {
        Group group = comm.group();
        group.send(to_send, next);
        group.receive(received, previous);
        group.run();
      } else {
        Async async = comm.async();
        Work sent = async.send(to_send, next), got = async.receive(received, previous);
        got.wait();
        sent.wait();
      }
      EXPECT_TRUE(is_right(round)) << round;
      EXPECT_EQ(comm.stats().bytes_direct - before.bytes_direct, count * sizeof received[0]) << round;
      EXPECT_EQ(comm.stats().bytes_copied, before.bytes_copied) << round;
    }
  });
}

TEST(ZeroCopy, ARankWhoseMemoryIsRefusedKeepsNobodyWaiting) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(page, page)), &std::free);
    const std::pair<void*, std::size_t> refused[] = {{memory.get(), page - 1}, {nullptr, page}, {nullptr, 0}};
    for (const auto& range : refused) {
      Registration registration;
      const auto thrown = thrown_by([&] {
        registration = comm.rank() == 1 ? comm.register_memory(range.first, range.second)
                                        : comm.register_memory(memory.get(), page);
      });
      EXPECT_EQ(thrown.code.has_value(), comm.rank() == 1) << thrown.text;
      expect_right(comm, {.count = enough});
    }
  });
}

TEST(ZeroCopy, ARankThatAsksForTooMuchKeepsNobodyWaiting) {
  for (const char* transport : {"shm", "tcp"})
    run_processes(2, over(transport), [](Communicator& comm) {
      for (const std::size_t too_much : {std::size_t{1} << 35, ~std::size_t{0} / 8 + 2}) {  // of doubles
        const auto thrown = thrown_by([&] {
          const auto buffer = comm.allocate<double>(comm.rank() == 1 ? too_much : enough);
          EXPECT_EQ(buffer.size(), enough);
        });
        EXPECT_EQ(thrown.code == ErrorCode::invalid_argument, comm.rank() == 1) << thrown.text;
        expect_right(comm, {.count = enough});
      }
    });
}

TEST(ZeroCopy, ThreadsAndTcpTakeTheSameCalls) {
  for (const char* transport : {"shm", "tcp"})
    run_local(
        2,
        [](Communicator& comm) {
          const auto a = comm.allocate<float>(enough), b = comm.allocate<float>(enough);
          const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, 2 * page),
                                                                   &std::free);
          const Registration registration = comm.register_memory(memory.get(), 2 * page);
          const Trial trial({.count = enough}, comm.rank(), comm.size(),
                            reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
          issue(comm, trial.call());
          EXPECT_EQ(trial.wrong(), "");
          comm.barrier();
        },
        over(transport));
}

// Its first call meets no page that it has to ask the system for, neither its own nor its peer's.
TEST(ZeroCopy, MemoryIsMappedWhenItIsMade) {
  if (sanitized) GTEST_SKIP() << "sanitizers have page faults of their own";
  if (!can_fault_in()) GTEST_SKIP() << "needs Linux 5.14";
  run_processes(2, over("shm"), [](Communicator& comm) {
    constexpr std::size_t count = std::size_t{1} << 20U, bytes = count * sizeof(float);
    void* const plain = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(plain, MAP_FAILED);
    const auto out = comm.allocate<float>(count);
    {
      const Registration registration = comm.register_memory(plain, bytes);
      const long before = page_faults();
      comm.all_reduce(std::span<const float>(static_cast<float*>(plain), count), out.span());
      EXPECT_LT(page_faults() - before, 300) << "of 2048 pages";
      EXPECT_GT(comm.stats().bytes_direct, 0U);
    }
    ::munmap(plain, bytes);
  });
}

// Its peer would fill it with pages of zeros.
TEST(ZeroCopy, MemoryThatIsGivenBackAtOnceIsMappedByNobodyAnyMore) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    comm.barrier();
    const std::size_t before = bytes_of_arenas();
    for (int round = 0; round < 4; ++round) {
      static_cast<void>(comm.allocate<std::byte>(comm.rank() == 0 ? std::size_t{32} << 20U : 1));
      comm.barrier();
      EXPECT_LE(bytes_of_arenas(), before + (std::size_t{1} << 20U));
      comm.barrier();
    }
  });
}

}  // namespace
}  // namespace tutti::test
