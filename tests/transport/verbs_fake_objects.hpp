/// \file
/// What the fake fabric hands out. Every object begins with the struct of libibverbs that the library sees.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <utility>

#include "verbs_fake.hpp"

namespace tutti::transport::testing {

/// A descriptor that is readable while events wait, and in error for good once it is cut, as the kernel's are
/// when their device is taken away.
class FakeBell {
 public:
  FakeBell() {
    if (::pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
  }
  ~FakeBell() {
    cut();
    ::close(ends_[0]);
  }
  FakeBell(const FakeBell&) = delete;
  FakeBell& operator=(const FakeBell&) = delete;
  [[nodiscard]] int fd() const { return ends_[0]; }
  [[nodiscard]] bool is_cut() const { return ends_[1] < 0; }
  void ring() const {
    const char one = 1;
    if (!is_cut() && ::write(ends_[1], &one, 1) != 1) std::abort();
  }
  void silence() const {
    std::array<char, 256> rung{};
    while (::read(ends_[0], rung.data(), rung.size()) > 0) {
    }
  }
  void cut() {
    if (!is_cut()) ::close(std::exchange(ends_[1], -1));
  }

 private:
  std::array<int, 2> ends_{};
};

struct FakeContext {
  ibv_context visible{};
  FakeBell bell;
  const FakeDevice* device = nullptr;
  std::deque<ibv_async_event> events;
};
struct FakeChannel {
  ibv_comp_channel visible{};
  FakeBell bell;
  std::deque<ibv_cq*> events;
};
struct FakeQueue {
  ibv_cq visible{};
  std::deque<ibv_wc> completions;
  bool armed = false;
};
struct FakeShared {
  ibv_srq visible{};
  std::deque<ibv_recv_wr> receives;
  std::deque<ibv_sge> pieces;
  std::size_t most = 0;
};
struct FakePair {
  ibv_qp visible{};
  ibv_qp_init_attr setting{};
  std::deque<ibv_recv_wr> receives;
  std::deque<ibv_sge> pieces;
  std::uint32_t peer = 0;
  int access = 0;
  std::uint16_t partition = 0xffff;
  int reads = 0, reads_served = 0;
  std::uint32_t held = 0;  ///< send requests since the last one that completed
};
struct FakeRegion {
  ibv_mr visible{};
  int access = 0;
};

}  // namespace tutti::transport::testing
