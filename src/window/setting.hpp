/// \file
/// What a window is made in: the parts of a communicator that it uses, or what tests put in their place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/window.hpp>

#include "communicator/watch.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/listener.hpp"
#include "transport/transport.hpp"
#include "window/exposed.hpp"

namespace tutti::detail {

struct WindowSetting {
  WindowOptions options;
  std::span<std::byte> memory;
  /// `all_gather` is used during construction only.
  transport::Group group;
  /// The same on all ranks, unlike that of any communicator or other window of the session; below 2^48.
  std::uint64_t number = 0;
  /// Zeroed, Counters::bytes_for; from `shm` where there is one.
  std::shared_ptr<std::byte> counters;
  /// Keeps `memory` registered, where it is: its peers have mapped it, and what they put while pages are
  /// replaced would be lost.
  std::vector<std::shared_ptr<void>> regions;
  /// Keeps it from being registered from now on.
  std::shared_ptr<const ExposedMemory> exposed;
  transport::shm::ShmTransport* shm = nullptr;  ///< nullptr: ranks of this host are reached like others
  transport::Transport* network = nullptr;      ///< what is better than TCP, if anything is
  /// Asked when that is nullptr.
  std::function<std::string(Rank)> why_no_network = [](Rank) { return std::string(); };
  /// Asked only where some peer needs it.
  std::function<std::shared_ptr<transport::tcp::TcpListener>()> listener;
  bootstrap::Secret secret{};
  std::string congestion;  ///< control of congestion: see data_socket.hpp
  /// Whether the communicator was destroyed, and with it the memory of this host that it had mapped. Asked
  /// whenever the window is used.
  std::function<bool()> over = [] { return false; };
  /// Throws when all of the window is over otherwise: the communicator, which must not be over, was aborted.
  std::function<void()> check = [] {};
  /// Moves what this thread has started on communicators, whose other ranks may wait for it. Throws nothing.
  bool (*move_queued)() = [] { return false; };
  /// Told that the process of a rank of this host has ended, maybe before anybody else knows.
  std::function<void(Rank)> ended = [](Rank) {};
  /// Whether a rank has died, left, or destroyed the communicator.
  std::function<std::optional<Watch::Gone>(Rank)> gone = [](Rank) { return std::nullopt; };
};

}  // namespace tutti::detail
