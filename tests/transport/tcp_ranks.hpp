/// \file
/// TCP transports of several ranks of this process.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance.hpp"
#include "local_group.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace tutti::transport::testing {

inline constexpr bootstrap::Secret tcp_secret{std::byte{1}, std::byte{2}, std::byte{3}};

/// One transport a group, all at once: setting up is collective.
inline Transports tcp_over(const std::vector<std::shared_ptr<tcp::TcpListener>>& listeners,
                           const std::vector<Group>& groups, tcp::TcpOptions options = {}) {
  Transports transports(groups.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i)
    threads.emplace_back([&, i] {
      transports[i] = std::make_unique<tcp::TcpTransport>(groups[i], listeners[i], tcp_secret, options);
    });
  threads.clear();
  return transports;
}

inline std::vector<std::shared_ptr<tcp::TcpListener>> listeners_at(const std::string& address, int count) {
  std::vector<std::shared_ptr<tcp::TcpListener>> listeners;
  for (int i = 0; i < count; ++i)
    listeners.push_back(std::make_shared<tcp::TcpListener>(address, tcp_secret));
  return listeners;
}

inline Transports tcp_ranks(int ranks, const std::string& address = "127.0.0.1", int streams = 1) {
  return tcp_over(listeners_at(address, ranks), local_groups(ranks), {.streams = streams, .congestion = {}});
}

}  // namespace tutti::transport::testing
