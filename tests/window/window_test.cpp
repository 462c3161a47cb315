// What every window promises, over every way that leads to a rank's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "bootstrap/ranks.hpp"
#include "sanitized.hpp"
#include "window/seats.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

class Windows : public OverWays {};
INSTANTIATE_TEST_SUITE_P(Ways, Windows, every_way(), [](const auto& way) { return name_of(way.param); });

std::uint8_t pattern(Rank rank, std::size_t i) {
  return static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 31 + 1);
}
std::vector<std::uint8_t> patterns(Rank rank, std::size_t bytes) {
  std::vector<std::uint8_t> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = pattern(rank, i);
  return all;
}
void copy(std::span<const std::uint8_t> from, std::uint8_t* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}
// At once: sanitizers look at every access.
bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

TEST_P(Windows, AreReachedTheWayThatIsTested) {
  run(GetParam(), 3, [](Seat& seat) {
    const auto place = seat.place(64);
    for (Rank peer = 0; peer < seat.size; ++peer)
      EXPECT_THAT(place.window.path(peer),
                  StartsWith(peer == seat.rank ? "this rank's own memory" : path_of(GetParam())));
    seat.barrier();
  });
}

TEST_P(Windows, PutAndGetMoveEveryByteAndNoOther) {
  run(GetParam(), 3, [](Seat& seat) {
    constexpr std::size_t part = sanitized ? 300'000 : 3 << 20;
    auto place = seat.place(2 * part + 64);
    const auto memory = place.as<std::uint8_t>();
    auto expected = patterns(seat.rank, memory.size());
    copy(expected, memory.data());
    seat.barrier();
    const Rank next = (seat.rank + 1) % seat.size;
    const Rank previous = (seat.rank + 2) % seat.size;
    const auto theirs = patterns(previous, part);
    // The first part to the next rank's second part, unaligned on both sides.
    place.window.put(next, {.local = 3, .remote = part + 1, .bytes = part - 5}).wait();
    seat.barrier();
    copy(std::span(theirs).subspan(3, part - 5), expected.data() + part + 1);
    ASSERT_TRUE(same(memory, expected));
    seat.barrier();
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, part - 16}) {
      place.window.get(previous, {.local = part + 7, .remote = 11, .bytes = bytes});
      place.window.flush(previous);
      ASSERT_TRUE(same(memory.subspan(part + 7, bytes), std::span(theirs).subspan(11, bytes))) << bytes;
    }
    place.window.put(seat.rank, {.local = 0, .remote = part + 64, .bytes = 100}).wait();
    EXPECT_EQ(memory[part + 64], pattern(seat.rank, 0));
    seat.barrier();
  });
}

TEST_P(Windows, ATransferOfNoWindowIsDone) {
  run(GetParam(), 2, [](Seat& seat) {
    Transfer none, left;
    {
      auto place = seat.place(64);
      left = place.window.put(1 - seat.rank, {.local = 0, .remote = 32, .bytes = 8});
      place.window.flush();
      seat.barrier();
    }
    for (Transfer* one : {&none, &left}) {
      EXPECT_TRUE(one->test());
      one->wait();
      one->wait(0ms);
    }
    seat.barrier();
  });
}

TEST_P(Windows, ANotificationFollowsItsDataAndAllBefore) {
  run(GetParam(), 3, [](Seat& seat) {
    constexpr std::size_t words = 40'000;
    constexpr std::uint32_t rounds = 20;
    auto place = seat.place(2 * words * sizeof(std::uint32_t));
    const auto mine = place.as<std::uint32_t>().first(words);
    const auto got = place.as<std::uint32_t>().subspan(words);
    const Rank next = (seat.rank + 1) % seat.size;
    const Rank previous = (seat.rank + 2) % seat.size;
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      std::ranges::fill(mine, round);
      // Large, small, then the notification on another small one.
      place.window.put(next, {.local = 0, .remote = words * 4, .bytes = words * 4 - 8});
      place.window.put(next, {.local = words * 4 - 8, .remote = words * 8 - 8, .bytes = 4});
      place.window.put(next, {.local = words * 4 - 4, .remote = words * 8 - 4, .bytes = 4}, {.notify = 7});
      place.window.wait_notification(7, 1, previous);
      ASSERT_EQ(got.front(), round);
      ASSERT_EQ(std::ranges::count(got, round), static_cast<std::ptrdiff_t>(words));
      EXPECT_FALSE(place.window.test_notification(7));
      place.window.flush();
      place.window.notify(previous, 3);  // it may write again
      place.window.wait_notification(3);
    }
    seat.barrier();
  });
}

TEST_P(Windows, NotificationsAreCountedByNumberAndSource) {
  run(GetParam(), 3, [](Seat& seat) {
    auto place = seat.place(64, {.notifications = 5});
    if (seat.rank != 0) {
      for (int i = 0; i < 10 * seat.rank; ++i) place.window.notify(0, 4);
      place.window.notify(0, 0);
    } else {
      place.window.wait_notification(4, 15, 2);
      EXPECT_FALSE(place.window.test_notification(4, 6, 2));
      place.window.wait_notification(4, 15);  // 10 of rank 1, the other 5 of rank 2
      EXPECT_FALSE(place.window.test_notification(4));
      place.window.wait_notification(0, 2);
      EXPECT_FALSE(place.window.test_notification(1));
    }
    seat.barrier();
  });
}

// More than transports hold for one who does not look; then with one who looks now and then.
TEST_P(Windows, NoNotificationIsLostOnOneWhoDoesNotLook) {
  run(GetParam(), 2, [](Seat& seat) {
    constexpr std::uint64_t puts = 1000;
    auto place = seat.place(8 * (puts + 1));
    const auto words = place.as<std::uint64_t>();
    std::mt19937 random(3);
    for (std::uint64_t round = 0; round < 3; ++round) {
      if (seat.rank == 0) {
        for (std::uint64_t k = 1; k <= puts; ++k) {
          words[k] = round * puts + k;
          place.window.put(1, {.local = 8 * k, .remote = 8 * k, .bytes = 8}, {.notify = 2});
          if (k % 50 == 0) place.window.notify(1, 3);
        }
        place.window.flush();
      }
      if (round == 0) seat.barrier();  // until then no look
      if (seat.rank == 1) {
        for (std::uint64_t taken = 0; taken < puts;) {
          const auto some = std::min(puts - taken, std::uint64_t{random() % 100 + 1});
          place.window.wait_notification(2, some, 0);
          taken += some;
          for (std::uint64_t k = taken - some + 1; k <= taken; ++k) ASSERT_EQ(words[k], round * puts + k);
        }
        place.window.wait_notification(3, puts / 50, 0);
        EXPECT_FALSE(place.window.test_notification(2));
        EXPECT_FALSE(place.window.test_notification(3));
      }
      seat.barrier();
    }
  });
}

// Each rank has more under way than sockets hold, or a send queue, and waits for the other's.
TEST_P(Windows, WhoOnlyTestsForNotificationsMovesWhatItPut) {
  run(GetParam(), 2, [](Seat& seat) {
    // More than sockets hold; soft RDMA devices, which hold less, are slow.
    const std::size_t block = (GetParam() == Way::verbs_devices ? 8 : 128) << 10;
    constexpr std::size_t count = 512;
    auto place = seat.place((count + 1) * block);
    const auto memory = place.as<std::uint8_t>();
    const Rank other = 1 - seat.rank;
    std::ranges::fill(memory.first(block), pattern(seat.rank, 0));
    std::vector<Block> blocks(count);
    for (std::size_t i = 0; i < count; ++i) blocks[i] = {.remote = (i + 1) * block, .bytes = block};
    const Batch batch = place.window.prepare_put(other, blocks);
    EXPECT_EQ(batch.blocks(), count);
    seat.barrier();
    place.window.post(batch, {.notify = 1});
    bool came = false;
    for (const Deadline deadline(20s); !came && !deadline.passed(); std::this_thread::yield())
      came = place.window.test_notification(1, 1, other);
    EXPECT_TRUE(came);
    EXPECT_FALSE(place.window.test_notification(1, 1, other)) << "it was taken";
    place.window.flush();
    seat.barrier();
    const std::vector<std::uint8_t> theirs(block, pattern(other, 0));
    for (std::size_t i = 1; i <= count; ++i) ASSERT_TRUE(same(memory.subspan(i * block, block), theirs)) << i;
    seat.barrier();
  });
}

TEST_P(Windows, ABatchIsPostedManyTimes) {
  run(GetParam(), 2, [](Seat& seat) {
    constexpr std::size_t block = 96;
    constexpr std::size_t count = 500;
    auto place = seat.place(2 * block * count);
    const auto memory = place.as<std::uint8_t>();
    // Pages in a scattered order, as a paged cache has them; some continue each other.
    std::vector<Block> blocks(count);
    for (std::size_t i = 0; i < count; ++i) blocks[i] = {.local = i * block, .bytes = block};
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin() + 10, order.end(), std::mt19937(5));
    for (std::size_t i = 0; i < count; ++i) blocks[i].remote = (count + order[i]) * block;
    if (seat.rank == 0) {
      const Batch batch = place.window.prepare_put(1, blocks);
      EXPECT_EQ(batch.bytes(), block * count);
      EXPECT_LE(batch.blocks(), count - 9);
      for (std::uint8_t round = 1; round <= 30; ++round) {
        std::ranges::fill(memory.first(block * count), round);
        place.window.post(batch, {.notify = 1}).wait();
      }
      place.window.wait_notification(2);  // the other has read
      EXPECT_TRUE(same(memory.first(block * count), patterns(1, block * count)));
    } else {
      place.window.wait_notification(1, 30);
      EXPECT_EQ(std::ranges::count(memory.subspan(block * count), 30),
                static_cast<std::ptrdiff_t>(block * count));
      copy(patterns(1, block * count), memory.data());
      for (std::size_t i = 0; i < count; ++i) {
        auto& b = blocks[i];
        b = {.local = b.remote, .remote = b.local, .bytes = block};
      }
      // Back and forth: scattered here, read from the other, then written back in order.
      const Batch read = place.window.prepare_get(0, blocks);
      place.window.post(read).wait();
      EXPECT_EQ(std::ranges::count(memory.subspan(block * count), 30),
                static_cast<std::ptrdiff_t>(block * count));
      place.window.put(0, {.local = 0, .remote = 0, .bytes = block * count});
      place.window.post(place.window.prepare_get(0, {}), {.notify = 2});
      place.window.flush();
    }
    seat.barrier();
  });
}

TEST_P(Windows, AtomicsOfAllRanksOnOneWord) {
  run(GetParam(), 4, [](Seat& seat) {
    constexpr std::uint64_t rounds = 200;
    auto place = seat.place(4096);
    seat.barrier();
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const auto before = place.window.fetch_add(2, 64, 3);
      EXPECT_GE(before, last);  // never back
      last = before;
      // A lock of one word, and a counter under it.
      while (place.window.compare_swap(2, 128, 0, static_cast<std::uint64_t>(seat.rank) + 1) != 0)
        std::this_thread::yield();
      place.window.get(2, {.local = 1024, .remote = 256, .bytes = 8}).wait();
      ++place.as<std::uint64_t>()[128];
      place.window.put(2, {.local = 1024, .remote = 256, .bytes = 8}).wait();
      EXPECT_EQ(place.window.compare_swap(2, 128, static_cast<std::uint64_t>(seat.rank) + 1, 0),
                static_cast<std::uint64_t>(seat.rank) + 1);
    }
    seat.barrier();
    // Read as words: that the barrier orders them is hidden from ThreadSanitizer, which does not see other
    // processes.
    EXPECT_EQ(place.window.fetch_add(2, 64, 0), 4 * rounds * 3);
    EXPECT_EQ(place.window.compare_swap(2, 128, 0, 0), 0U);
    place.window.get(2, {.local = 1024, .remote = 256, .bytes = 8}).wait();
    EXPECT_EQ(place.as<std::uint64_t>()[128], 4 * rounds);
    seat.barrier();
  });
}

// Every rank writes into its own share of every other one's memory; a model of all memories says what must be
// there.
TEST_P(Windows, RandomSequencesGiveWhatAModelSays) {
  run(GetParam(), 3, [](Seat& seat) {
    constexpr std::size_t share = 20'000;
    const auto ranks = static_cast<std::size_t>(seat.size);
    const auto me = static_cast<std::size_t>(seat.rank);
    auto place = seat.place(share * (ranks + 2));  // shares of the others, a source, a sink
    const std::size_t source = share * ranks;
    const std::size_t sink = source + share;
    const auto memory = place.as<std::uint8_t>();
    std::mt19937 random(17 + static_cast<unsigned>(seat.rank));
    for (auto& byte : memory.subspan(source, share)) byte = static_cast<std::uint8_t>(random());
    std::vector<std::vector<std::uint8_t>> model(ranks, std::vector<std::uint8_t>(share));
    seat.barrier();
    for (int step = 0; step < 300; ++step) {
      const auto target = random() % ranks;
      const auto to = static_cast<Rank>(target);
      const std::size_t bytes = random() % (random() % 4 == 0 ? share : 200);
      const std::size_t from = random() % (share - bytes);
      const std::size_t at = random() % (share - bytes);
      switch (random() % 4) {
        case 0: {
          place.window.flush(to);  // transfers are not ordered
          place.window.get(to, {.local = sink + from, .remote = me * share + at, .bytes = bytes}).wait();
          ASSERT_TRUE(std::equal(model[target].begin() + static_cast<std::ptrdiff_t>(at),
                                 model[target].begin() + static_cast<std::ptrdiff_t>(at + bytes),
                                 memory.begin() + static_cast<std::ptrdiff_t>(sink + from)))
              << "step " << step;
          break;
        }
        case 1: {
          std::vector<Block> blocks;
          for (std::size_t k = 0; k < 8; ++k)
            blocks.push_back({.local = source + from + bytes / 8 * k,
                              .remote = me * share + at + bytes / 8 * (7 - k),
                              .bytes = bytes / 8});
          place.window.flush(to);
          place.window.post(place.window.prepare_put(to, blocks), {.notify = 1});
          for (const Block& b : blocks)
            std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(b.local), b.bytes,
                        model[target].begin() + static_cast<std::ptrdiff_t>(b.remote - me * share));
          break;
        }
        default:
          place.window.flush(to);
          place.window.put(to, {.local = source + from, .remote = me * share + at, .bytes = bytes});
          std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(source + from), bytes,
                      model[target].begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    place.window.flush();
    for (Rank r = 0; r < seat.size; ++r) {
      place.window.get(r, {.local = sink, .remote = me * share, .bytes = share}).wait();
      EXPECT_TRUE(std::ranges::equal(model[static_cast<std::size_t>(r)], memory.subspan(sink, share)));
    }
    seat.barrier();
  });
}

TEST_P(Windows, ATargetThatComputesIsReached) {
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(8 << 20);
    if (seat.rank == 1) {
      const auto first = std::atomic_ref(place.as<std::uint64_t>()[0]);
      const auto until = std::chrono::steady_clock::now() + 10s;
      while (first.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until) {
      }
      EXPECT_EQ(first.load(), 1U);  // and not one call of the window
    } else {
      std::ranges::fill(place.as<std::uint8_t>().subspan(8), 9);
      place.window.put(1, {.local = 8, .remote = 8, .bytes = (8 << 20) - 8}).wait();
      place.window.get(1, {.local = 0, .remote = 4 << 20, .bytes = 8}).wait();
      EXPECT_EQ(place.as<std::uint8_t>()[0], 9);
      place.window.fetch_add(1, 0, 1);
    }
    seat.barrier();
  });
}

TEST_P(Windows, WaitsEndAtTheirDeadlineAndSayWhatIsMissing) {
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(64, {.name = "late"});
    if (seat.rank == 0) {
      const auto start = std::chrono::steady_clock::now();
      const auto thrown = thrown_by([&] { place.window.wait_notification(5, 2, 1, 150ms); });
      EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
      EXPECT_THAT(
          thrown.text,
          HasSubstr("window \"late\" on rank 0: waited 150 ms for 2 of notification 5 of rank 1; 0 came"));
      EXPECT_GE(std::chrono::steady_clock::now() - start, 150ms);
    }
    seat.barrier();
    // Nothing is lost by it.
    place.window.notify(1 - seat.rank, 5);
    place.window.wait_notification(5);
    seat.barrier();
  });
}

TEST_P(Windows, WindowsAreIndependentAndMadeOften) {
  run(GetParam(), 2, [](Seat& seat) {
    auto kept = seat.place(64);
    for (std::uint64_t i = 1; i <= 20; ++i) {
      auto place = seat.place(4096);
      place.as<std::uint64_t>()[1] = i;
      place.window.put(1 - seat.rank, {.local = 8, .remote = 0, .bytes = 8}, {.notify = 0});
      place.window.wait_notification(0);
      EXPECT_EQ(place.as<std::uint64_t>()[0], i);
      EXPECT_FALSE(kept.window.test_notification(0));
      seat.barrier();
    }
    EXPECT_EQ(kept.as<std::uint64_t>()[0], 0U);
    seat.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
