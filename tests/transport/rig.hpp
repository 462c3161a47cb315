/// \file
/// Running ranks as threads, with a deadline on everything, and messages whose bytes are known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "conformance.hpp"

namespace tutti::transport::testing {

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Violation(otherwise);
}

/// The same numbers on all platforms.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return splitmix64(std::exchange(state_, state_ + 0x9e3779b97f4a7c15)); }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

/// The bytes of message `seed`: every position and every message differ. Calls `visit(position, bytes of it,
/// count)`.
template <class Visit>
void for_words(std::size_t bytes, std::uint64_t seed, Visit visit) {
  Random random(seed);
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    visit(i, &word, std::min(sizeof word, bytes - i));
  }
}
inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for_words(bytes.size(), seed, [&](std::size_t i, const void* word, std::size_t count) {
    std::memcpy(bytes.data() + i, word, count);
  });
}
inline void require_filled(std::span<const std::byte> bytes, std::uint64_t seed, const std::string& what) {
  for_words(bytes.size(), seed, [&](std::size_t i, const void* word, std::size_t count) {
    if (std::memcmp(bytes.data() + i, word, count) != 0)
      throw Violation(what + ": bytes from " + std::to_string(i) + " of " + std::to_string(bytes.size()) +
                      " are wrong");
  });
}
/// What a caller does to memory that is its own again.
inline void scribble(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0xee}); }

/// A message from one rank to another, of its sender and of its receiver in this thread.
inline void pass(Transport& from, Transport& to, Rank sender, Rank receiver, int channel, Tag tag) {
  std::vector<std::byte> bytes(10'000);
  fill(bytes, tag);
  require(from.sender(receiver, channel).try_send(bytes.data(), bytes.size(), tag, false), "nothing is sent");
  scribble(bytes);
  const Deadline deadline(std::chrono::seconds(20));
  while (!to.receiver(sender, channel).try_receive(bytes.data(), bytes.size(), tag)) {
    require(!deadline.passed(), "a message does not arrive");
    from.progress();
    to.wait(std::chrono::milliseconds(100));
  }
  require_filled(bytes, tag, "a message");
}

/// The ranks of one check.
class Rig {
 public:
  Rig(const Subject& subject, int ranks) : transports_(subject.make(ranks)), deadline_(subject.patience) {}
  Transport& operator[](Rank rank) { return *transports_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] int size() const { return static_cast<int>(transports_.size()); }
  void destroy(Rank rank) { transports_.at(static_cast<std::size_t>(rank)).reset(); }

  /// Repeats `attempt` while it returns false, as an executor does.
  template <class Attempt>
  void until(Rank rank, const std::string& what, Attempt attempt) {
    for (int polls = 1; !attempt(); ++polls) {
      (*this)[rank].progress();
      if (polls % 64 == 0) (*this)[rank].wait(std::chrono::milliseconds(1));
      require(!deadline_.passed(), "rank " + std::to_string(rank) + " waited in vain: " + what);
    }
  }

  /// Runs `body(rank)` on one thread a rank; rethrows what the first one to fail threw.
  template <class Body>
  void run(Body body) {
    std::mutex mutex;
    std::exception_ptr first;
    {
      std::vector<std::jthread> threads;
      for (Rank rank = 0; rank < size(); ++rank)
        threads.emplace_back([&, rank] {
          try {
            body(rank);
          } catch (...) {
            const std::scoped_lock lock(mutex);
            if (!first) first = std::current_exception();
          }
        });
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  Transports transports_;
  Deadline deadline_;
};

}  // namespace tutti::transport::testing
