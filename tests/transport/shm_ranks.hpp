/// \file
/// Ranks of one host that are threads of this process.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "conformance.hpp"
#include "local_group.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::transport::testing {

inline Transports shm_ranks(int ranks) {
  const auto groups = local_groups(ranks);
  Transports transports(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      transports[static_cast<std::size_t>(r)] =
          std::make_unique<shm::ShmTransport>(groups[static_cast<std::size_t>(r)], r % 2 == 0);
    });
  threads.clear();
  return transports;
}

}  // namespace tutti::transport::testing
