/// \file
/// Ranks of one host that are threads of this process.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "conformance.hpp"
#include "local_group.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::transport::testing {

inline Transports shm_ranks_of(const std::vector<Group>& groups) {
  Transports transports(groups.size());
  std::vector<std::jthread> threads;
  threads.reserve(groups.size());
  for (std::size_t r = 0; r < groups.size(); ++r)
    threads.emplace_back(
        [&, r] { transports[r] = std::make_unique<shm::ShmTransport>(groups[r], r % 2 == 0); });
  threads.clear();
  return transports;
}

inline Transports shm_ranks(int ranks) { return shm_ranks_of(local_groups(ranks)); }

}  // namespace tutti::transport::testing
