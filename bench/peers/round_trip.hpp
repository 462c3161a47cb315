/// \file
/// How far apart the cores of ranks 0 and 1 are at the moment. Virtual cores move: for a while two of them
/// share a cache, or even a physical core, and then they do not, which multiplies the time of everything
/// small.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "backend.hpp"

namespace bench {

/// One cache line that ranks 0 and 1 share; they must be on cores of their own. Collective over a backend of
/// one host. Further ranks sleep meanwhile.
class RoundTrip {
 public:
  explicit RoundTrip(Backend& backend) : backend_(backend), rank_(backend.rank()) {
    const int own = rank_ == 0 ? ::memfd_create("round-trip", MFD_CLOEXEC) : -1;
    if (rank_ == 0 && (own < 0 || ::ftruncate(own, bytes) != 0)) fail("memfd_create");
    const auto pid = static_cast<int>(backend.max(rank_ == 0 ? ::getpid() : 0));
    const auto number = static_cast<int>(backend.max(own));
    const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
    const int file = rank_ == 0 ? own : ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) fail("open " + path);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fail("mmap");
    backend.barrier();  // all have it open
    ::close(file);
    line_ = new (memory) std::atomic<std::uint64_t>;
    backend.barrier();
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;
  ~RoundTrip() { ::munmap(line_, bytes); }

  /// Nanoseconds from a store on one core to the answer of the other: the fastest of some short series, since
  /// whatever disturbs one makes it slower.
  double nanoseconds() {
    double best = 1e9;
    for (int series = 0; series < 8; ++series) {
      backend_.barrier();
      if (rank_ == 0) line_->store(0);
      backend_.barrier();
      const double elapsed = rank_ < 2 ? travel() : 0;
      if (rank_ >= 2) sleep_until_over();
      best = std::min(best, backend_.max(elapsed / trips));
    }
    return best;
  }

 private:
  static constexpr std::size_t bytes = 4096;
  static constexpr std::uint64_t trips = 400;

  double travel() {
    if (backend_.size() > 2)
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // others fall asleep
    if (rank_ == 1) line_->store(1, std::memory_order_release);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    if (rank_ == 0) wait_for(1, deadline);  // both are here
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < trips; ++i) {
      const std::uint64_t mine = 2 * i + 1 + static_cast<std::uint64_t>(rank_);
      wait_for(mine, deadline);
      line_->store(mine + 1, std::memory_order_release);
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count();
  }
  void sleep_until_over() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (line_->load(std::memory_order_acquire) != 2 * trips + 1) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("ranks 0 and 1 do not end");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void wait_for(std::uint64_t value, std::chrono::steady_clock::time_point deadline) {
    for (std::uint32_t spins = 1; line_->load(std::memory_order_acquire) != value; ++spins)
      if (spins % 4096 == 0 && std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("the other rank did not answer for 10 s: are both bound to one core?");
  }
  [[noreturn]] static void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
  }

  Backend& backend_;
  int rank_;
  std::atomic<std::uint64_t>* line_;
};

}  // namespace bench
