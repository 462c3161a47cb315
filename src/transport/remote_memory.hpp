/// \file
/// The contract between windows and every transport: the memory of one target, as one rank reaches it.
#pragma once

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/window.hpp>

namespace tutti::transport {

/// Every call starts one or more operations. They are numbered from 1 in the order of their start and become
/// done in that order. Nothing blocks but a first call, which may connect. Operations go out with `submit` at
/// the latest, so that those of one call need one doorbell; what cannot waits here and moves in `done`.
/// Arguments are checked by the caller. Used by one thread at a time.
///
/// Operations throw Error(peer_lost, system) when the target cannot be reached (any more); nothing is done
/// after that.
class RemoteMemory {
 public:
  RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;
  virtual ~RemoteMemory() = default;

  /// The way, in words.
  [[nodiscard]] virtual std::string explain() const = 0;
  /// `blocks` are read during the call only; what they name belongs to the operation until it is done.
  virtual void put(std::span<const Block> blocks) = 0;
  virtual void get(std::span<const Block> blocks) = 0;
  /// One more notification `id` of this rank at the target, after all earlier operations. It may be part of
  /// the operation before it.
  virtual void notify(std::uint32_t id) = 0;
  /// False: atomics take another way, that to the owner of the memory, and are not asked for here.
  [[nodiscard]] virtual bool has_atomics() const { return false; }
  /// `before` is set when done, and must stay until then.
  virtual void fetch_add(std::size_t /*offset*/, std::uint64_t /*value*/, std::uint64_t* /*before*/) {
    assert(has_atomics());
  }
  virtual void compare_swap(std::size_t /*offset*/, std::uint64_t /*expected*/, std::uint64_t /*desired*/,
                            std::uint64_t* /*before*/) {
    assert(has_atomics());
  }

  virtual void submit() {}

  /// Operations started so far.
  [[nodiscard]] virtual std::uint64_t started() const = 0;
  /// Moves what can be moved; so many operations are done.
  virtual std::uint64_t done() = 0;
  /// Those that `done` has found so far, also where it threw then. Moves nothing.
  [[nodiscard]] virtual std::uint64_t known_done() const = 0;
  /// Sleeps until `done` may have more to say; at most `longest`.
  virtual void wait(std::chrono::microseconds longest) = 0;
};

/// What a rank gives to its peers.
struct Exposure {
  std::span<std::byte> memory;
  std::span<std::byte> counters;  ///< 64-bit words [number][source], written by peers with running totals
  /// Takes a notification that came without its word: number, which exists, and source. Called by `progress`
  /// and `wait`.
  std::function<void(std::uint32_t, Rank)> signalled;
  Rank rank = 0;
  int size = 1;
};

/// One rank's part of a window over a transport that reaches memory by itself. It connects when it is first
/// used, through the server of the target's window, which every rank then runs.
class RemoteAccess {
 public:
  using Bytes = std::vector<std::byte>;
  /// Asks the access of the target, and returns its answer. Blocking. Throws Error(timeout, peer_lost,
  /// aborted).
  using Ask = std::function<Bytes(std::span<const std::byte>)>;
  RemoteAccess() = default;
  RemoteAccess(const RemoteAccess&) = delete;
  RemoteAccess& operator=(const RemoteAccess&) = delete;
  virtual ~RemoteAccess() = default;
  /// Answers the access of another rank. Called on the thread of the server. Throws Error.
  virtual Bytes answer(Rank from, std::span<const std::byte> question) = 0;
  /// The memory of a rank that the transport reaches. `ask` lives as long.
  virtual std::unique_ptr<RemoteMemory> reach(Rank target, Ask ask) = 0;
  /// Takes the notifications that have come without words. As `wait` on the thread of the window.
  virtual void progress() = 0;
  /// Sleeps until one may have come; at most `longest`.
  virtual void wait(std::chrono::microseconds longest) = 0;
  /// Throws Error(system) once nothing goes to this rank, or comes from it, any more because of this rank's
  /// means. As `wait` on the thread of the window.
  virtual void check(Rank peer) = 0;
};

}  // namespace tutti::transport
