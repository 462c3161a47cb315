/// \file
/// What the fake fabric hands out. Every object begins with the struct of libibverbs that the library sees.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>

#include "verbs_fake.hpp"

namespace tutti::transport::testing {

struct FakeContext {
  ibv_context visible{};
  const FakeDevice* device = nullptr;
  std::deque<ibv_async_event> events;
};
struct FakeChannel {
  ibv_comp_channel visible{};
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
