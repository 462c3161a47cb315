/// \file
/// The group of ranks outside the data path: a star of authenticated TCP connections around rank 0.
///
/// It forms the group, exchanges addresses, and stays as the lifeline: a rank that dies closes its
/// connection, and the hub (one thread of rank 0, asleep in poll) tells all others. Sub-communicators share
/// the session of the communicator they were split from, so ranks here are always those of the first one
/// ("world ranks").
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/unique_id.hpp>

namespace tutti::bootstrap {

using Bytes = std::vector<std::byte>;
using Secret = std::array<std::byte, 16>;

/// News of another rank.
struct Notice {
  enum class Kind : std::uint8_t {
    lost,     ///< `rank` died (its connection closed without a goodbye)
    left,     ///< `rank` destroyed its last communicator
    failed,   ///< `rank` failed in `communicator`, be it because of another one; code, ranks and text say why
    aborted,  ///< `rank` aborted `communicator`; likewise
    closed,   ///< `rank` destroyed `communicator`, and has others
  };
  Kind kind = Kind::lost;
  Rank rank = -1;                       ///< world rank it is about
  std::uint64_t communicator = 0;       ///< not of lost and left
  ErrorCode code = ErrorCode::aborted;  ///< failed and aborted only
  /// failed and aborted: ranks at fault, in the communicator's numbering. closed, on its way to the hub: the
  /// world ranks that are to hear it.
  std::vector<Rank> ranks;
  std::string text;
};

/// One call of a rank, for the referee.
struct CallRecord {
  std::uint64_t sequence = 0;
  std::uint32_t tag = 0;  ///< equal on ranks that make the same call
  std::string text;       ///< "all_reduce(1024 x float32, sum)"
};

class Session {
 public:
  /// Joins the group named by `id` as `rank` of `size`; returns when all have. Rank 0 must run in the process
  /// that made `id` and starts the hub thread. Throws Error: timeout (names the ranks that did not come),
  /// unauthorized, invalid_argument (rank taken twice, size differs: names both), system. size 1 opens no
  /// socket. Where rank 0 can listen at the id's place again, ranks may join with the same id again, one
  /// group after the other, be it that the last one formed or that it did not: however often each has tried,
  /// those meet that try now.
  static std::shared_ptr<Session> join(const UniqueId& id, Rank rank, int size,
                                       std::chrono::milliseconds timeout);
  virtual ~Session() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Known to all members, to authenticate further connections and to name shared things; of this group only.
  [[nodiscard]] virtual const Secret& secret() const = 0;
  /// Numeric address of the interface by which this rank reaches the others; where its own listeners belong.
  [[nodiscard]] virtual std::string address() const = 0;

  /// Every rank's bytes, in rank order; at most 1 MiB a rank. Collective, blocking, one at a time. Throws
  /// Error(timeout) naming the missing ranks, Error(peer_lost), Error(mismatch).
  virtual std::vector<Bytes> all_gather(std::span<const std::byte> mine,
                                        std::chrono::milliseconds timeout) = 0;

  /// The next notice, if one has arrived. Never blocks; a system call or two. Thread safe. Loss of the hub is
  /// a notice about rank 0, unless rank 0 said goodbye.
  virtual std::optional<Notice> poll() = 0;
  /// Rank 0's process has ended, in order or not: nothing is heard of the others any more. Thread safe.
  virtual bool hub_has_ended() = 0;
  /// Tells all other ranks that this rank's `communicator` failed (they get a `failed` notice). Never throws:
  /// a dead connection makes it a no-op. Thread safe.
  virtual void announce_failure(std::uint64_t communicator, const Error& why) noexcept = 0;
  /// Likewise, that this rank aborted it.
  virtual void announce_abort(std::uint64_t communicator, const Error& why) noexcept = 0;
  /// Likewise, that this rank has destroyed `communicator`, but only its members, by their world ranks (they
  /// get a `closed` notice): others may read nothing for long, and must not be sent ever more meanwhile.
  virtual void announce_closed(std::uint64_t communicator, std::span<const Rank> members) noexcept = 0;
  /// This rank waits and makes no progress: its recent calls, newest last, and what it waits for. The hub
  /// compares them with the reports of other ranks of the same communicator and, where two differ in the tag
  /// of one sequence number, sends everyone a `failed` notice with ErrorCode::mismatch whose text names both
  /// ranks and both calls. `me` is this rank's number in `communicator`. Thread safe, never throws.
  virtual void report_stuck(std::uint64_t communicator, Rank me,
                            std::span<const CallRecord> calls) noexcept = 0;
  /// Says goodbye: the others see `left`, not `lost`. Rank 0 waits until all have left, at most `linger`;
  /// what it serves goes on behind it, until all have left or the process ends. Idempotent. The destructor
  /// without it makes this rank `lost` to the others (an exception passed through).
  virtual void leave(std::chrono::milliseconds linger) noexcept = 0;
};

}  // namespace tutti::bootstrap
