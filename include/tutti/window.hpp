/// \file
/// Memory of other ranks, read and written without a call of theirs: puts, gets, notifications, atomics.
///
/// A window is what a mover of KV-cache blocks needs and no more. The descriptors, prepared once and posted
/// often, and the notification that follows the data are those of NIXL; the counters that are waited for by a
/// number those of GASPI; completion by `flush` that of MPI's passive target epochs. docs/windows.md has the
/// promises in one place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/communicator.hpp>
#include <tutti/operations.hpp>
#include <tutti/types.hpp>

namespace tutti {

namespace detail {
class WindowState;
}  // namespace detail

/// One contiguous piece of a transfer: offsets in bytes from the beginning of the memory that this rank
/// (`local`) and the target (`remote`) gave to the window.
struct Block {
  std::size_t local = 0;
  std::size_t remote = 0;
  std::size_t bytes = 0;
  bool operator==(const Block&) const = default;
};

/// The most that WindowOptions may ask for.
inline constexpr std::uint32_t max_notifications = 1U << 16;

/// How a window is made.
struct WindowOptions {
  /// For messages; need not be unique.
  std::string name = "window";
  /// Numbers of notifications: 0 to `notifications` - 1; at least one, and the same on all ranks. Each takes
  /// 16 bytes a rank, on every rank.
  std::uint32_t notifications = 64;
};

/// What may be said with a transfer.
struct TransferOptions {
  /// Sent to the target after the data of this transfer, and of everything that this rank started before it
  /// to the same target: whoever sees the notification sees the data.
  std::optional<std::uint32_t> notify{};
  /// Counted from the call. Once it has passed, waiting for this transfer, and `flush`, throw Error(timeout).
  /// It takes the place of the communicator's timeout, which counts for each wait without a deadline, and for
  /// connecting.
  std::optional<std::chrono::milliseconds> deadline{};
};

/// A transfer under way. Need not be kept: `Window::flush` waits for all. Copies mean the same transfer. Used
/// on the thread that uses its window.
class Transfer {
 public:
  /// Nothing, and done; so is one whose window is gone.
  Transfer() = default;
  /// Returns when the transfer is done: a put is in the target's memory, a get in this rank's. What is known
  /// to be done stays so, whatever happens to the target. Throws Error: timeout (the transfer is then still
  /// under way: its memory is not to be touched until a later wait returns, or the window is gone);
  /// peer_lost; aborted; system, where the system or the network refuses what the target's memory takes;
  /// forked, in a child. The error names window, target and offset, or the window alone where all of it is
  /// over.
  void wait();
  /// With a limit for this wait, in place of the communicator's.
  void wait(std::chrono::milliseconds timeout);
  /// True when done; moves things along. Throws as `wait` does; timeout only for the transfer's own deadline.
  bool test();

 private:
  friend class detail::WindowState;
  std::weak_ptr<detail::WindowState> window_;
  Rank target_ = -1;
  std::uint64_t number_ = 0;  ///< of its last operation, counted per target; 0: it has none
  const char* verb_ = "";     ///< for messages, as what follows
  std::size_t offset_ = 0, bytes_ = 0;
};

/// Blocks of one target and one direction, checked and prepared once. Posted any number of times, also while
/// an earlier post is under way. Cheap to copy.
class Batch {
 public:
  /// Of no window: `post` refuses it, as it does one of another window.
  Batch() = default;
  /// Together, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// After neighbours that continue each other on both sides were joined.
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_ ? blocks_->size() : 0; }
  [[nodiscard]] Rank target() const noexcept { return target_; }

 private:
  friend class detail::WindowState;
  std::shared_ptr<const std::vector<Block>> blocks_;
  std::weak_ptr<detail::WindowState> window_;
  std::size_t bytes_ = 0;
  Rank target_ = -1;
  bool is_put_ = true;
};

/// Any rank, where a rank may be named.
inline constexpr Rank any_rank = -1;

/// Memory that the ranks of a communicator give each other. The thread that uses the communicator makes the
/// window, and destroys it before the communicator, without which it throws Error(aborted). In between, one
/// thread at a time uses it, which may be another one.
///
/// **What is promised.** Transfers are not ordered among each other; a notification comes after all that its
/// sender started before it to the same target. Words are atomic for `fetch_add` and `compare_swap` of all
/// ranks, the owner's included, and for the owner's own std::atomic_ref. Memory under a transfer belongs to
/// it: a put reads its local blocks until it is done. The target need not call anything: its memory is
/// reached while it computes.
///
/// **Failures** concern one target: after Error(peer_lost) for one rank, transfers with others go on. An
/// abort of the communicator ends all. Ranges beyond a rank's memory, unaligned words and numbers out of
/// range throw Error(invalid_argument), with nothing sent.
///
/// **The end.** Before a rank destroys its window, the others must have stopped using its memory: a barrier
/// says so. Ranks that are threads must see to that also where they throw. So must ranks whose memory others
/// reach by cross-memory attach: what the others put until they hear of it lands there. The destructor waits
/// for this rank's own transfers, at most a second.
class Window {
 public:
  /// Of no communicator, as one that was moved from: may only be destroyed, assigned to, or asked whether it
  /// is of one.
  Window() noexcept;
  /// Collective, and waits for collectives that were started before. `memory` is this rank's part: any
  /// memory, of any size, also empty; sizes may differ. It must stay until the window is gone. Memory from
  /// `Communicator::allocate` or registered is reached fastest by ranks of this host; `path` says how each
  /// is reached. Throws Error: mismatch (other `notifications`), and on all ranks what is wrong on one:
  /// invalid_argument (a null pointer with a size, memory of a CUDA device, `notifications` out of range),
  /// system (also where it cannot map a peer's memory); the communicator then stays usable.
  Window(Communicator& communicator, std::span<std::byte> memory, const WindowOptions& options = {});
  /// Of what operations take: std::vector, Buffer, std::array, ... (see WritableElements).
  template <WritableElements Range>
  Window(Communicator& communicator, Range&& memory, const WindowOptions& options = {})
      : Window(communicator, std::span<std::byte>(std::as_writable_bytes(std::span(memory))), options) {}
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();
  /// Whether it is of one.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Those of the communicator that it was made from.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// Bytes that a rank gave. Throws Error(invalid_argument) when there is no such rank.
  [[nodiscard]] std::size_t bytes(Rank rank) const;
  /// By what way this rank reaches the memory of `target`, and why not by a better one. Throws likewise.
  [[nodiscard]] std::string path(Rank target) const;

  /// Writes to, or reads from, the target's memory. Where that is reached by load and store or by
  /// cross-memory attach (see `path`), the call itself copies. Over a network it returns at once; a first
  /// transfer to a target may connect, bounded by the communicator's timeout. Where the target is this rank,
  /// source and destination of a block are the same or do not overlap. Throws Error(invalid_argument), and as
  /// Transfer::wait does.
  Transfer put(Rank target, const Block& block, const TransferOptions& options = {});
  Transfer get(Rank target, const Block& block, const TransferOptions& options = {});
  /// Nothing but a notification, after all that was started to the target before.
  Transfer notify(Rank target, std::uint32_t id);

  /// Checks the blocks and prepares them for `post`; where the target is this rank, neighbours that were
  /// joined (see Batch::blocks) do not overlap as one either. A get that notifies tells the target that its
  /// blocks have been read.
  [[nodiscard]] Batch prepare_put(Rank target, std::span<const Block> blocks);
  [[nodiscard]] Batch prepare_get(Rank target, std::span<const Block> blocks);
  Transfer post(const Batch& batch, const TransferOptions& options = {});

  /// Adds to the 64-bit word at `offset` (a multiple of 8; the target's memory must be aligned to 8) and
  /// returns what it was. Blocking; sums wrap. Throws as Transfer::wait does; but after the communicator's
  /// timeout there is nothing to wait for again, and the addition may still take effect.
  std::uint64_t fetch_add(Rank target, std::size_t offset, std::uint64_t value);
  /// Sets the word to `desired` if it is `expected`; returns what it was.
  [[nodiscard]] std::uint64_t compare_swap(Rank target, std::size_t offset, std::uint64_t expected,
                                           std::uint64_t desired);

  /// Returns when all transfers to `target` (or to all targets) are done. Throws as Transfer::wait does.
  /// `flush()` waits for every target, by one timeout, and then throws what it met first; but an abort at
  /// once.
  void flush(Rank target);
  void flush();

  /// Waits until `count` notifications of this number have come that were not taken before, and takes them.
  /// It waits for none where `count` is 0, so mind that `from` comes after it, not in its place. `from`:
  /// those of one rank only. Takes nothing when it throws. Throws Error: timeout after `timeout` (default:
  /// the communicator's) naming what is missing; peer_lost when `from` has died or destroyed the
  /// communicator, or, without `from`, any rank has died or all others have destroyed theirs; system, where
  /// this rank's RDMA device is lost; invalid_argument for a number or a rank that does not exist; aborted;
  /// forked.
  void wait_notification(std::uint32_t id, std::uint64_t count = 1, Rank from = any_rank,
                         std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  /// Takes them and returns true if they have come; moves things along. Throws Error: system,
  /// invalid_argument likewise; aborted; forked.
  [[nodiscard]] bool test_notification(std::uint32_t id, std::uint64_t count = 1, Rank from = any_rank);

 private:
  friend class detail::WindowState;
  explicit Window(std::shared_ptr<detail::WindowState> state);
  std::shared_ptr<detail::WindowState> state_;
};

}  // namespace tutti
