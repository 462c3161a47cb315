/// \file
/// The one contract between execution and every transport: ordered, reliable, one-way FIFOs with credits.
///
/// The sender reserves room and publishes; the receiver acquires a view and releases it. Nothing blocks:
/// every `try_` call returns at once and is repeated by the executor, which polls its lanes and calls
/// `Transport::progress`. Both ends know the size of every message beforehand (the schedule says it), so no
/// size is negotiated; the tag proves that both ends mean the same operation. Ends are used by one thread at
/// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/types.hpp>

#include "transport/device_memory.hpp"

namespace tutti::transport {

/// The operation a message belongs to: a hash of its sequence number, kind, counts, type, reduction and root.
/// Equal on all ranks that make the same call.
using Tag = std::uint32_t;

/// Messages of `Transport::max_message_bytes` that every FIFO can hold before its receiver takes one.
/// Schedules may ask for at most this many credits.
inline constexpr int channel_credits = 4;

/// FIFOs from one rank to another: those of schedules, numbered from 0, and two more, since calls that are
/// independent of each other share none.
inline constexpr int schedule_channels = 4;
inline constexpr int message_channel = 4;  ///< sends and receives: `try_send` and `try_receive` only
inline constexpr int meeting_channel = 5;  ///< what ranks tell each other while they make something together
inline constexpr int channels = 6;

/// So much is moved in one go, if nothing keeps it, before other lanes, or other calls, have their turn. Of
/// short messages a look at all of them for each would take longer than they do; of long ones, what lies next
/// to each other is copied sooner. More than half a second-level cache, and others wait for what this rank
/// could have sent (docs/experiments.md).
inline constexpr std::size_t bytes_in_one_go = std::size_t{512} << 10;

/// Number of the multicast FIFO of a rank that is the only one of its schedule to multicast, on whatever
/// channel.
inline constexpr int lone_channel = channels;
/// Number of the FIFO to a rank of the same host for schedules in which no rank both sends and receives:
/// message follows message, so that short ones, too, do not wait for each other's return.
inline constexpr int stream_channel = lone_channel + 1;

/// The sending end.
class Sender {
 public:
  virtual ~Sender() = default;
  /// Room for a message of `bytes`, to be filled and published; nullptr while there is none. Calling it again
  /// before `publish` returns the same room.
  virtual std::byte* try_reserve(std::size_t bytes) = 0;
  /// Whether the room just reserved for `bytes` is better written past the caches: a hint.
  [[nodiscard]] virtual bool past_caches(std::size_t /*bytes*/) const { return false; }
  /// Sends the reserved message.
  virtual void publish(std::size_t bytes, Tag tag) = 0;
  /// Sends `bytes` from `data` (may be null when 0): reserve, copy and publish in one call, or without the
  /// copy where the transport can. `stable`: the caller leaves `data` unchanged until `flushed()`; otherwise
  /// it may change on return. Returns false, with nothing sent, while there is no room; or with a part sent,
  /// where the transport cuts messages (`Transport::cuts_messages`), and must be repeated with equal
  /// arguments.
  virtual bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) = 0;
  /// Whether the last `try_send`, though it returned false, sent a part.
  virtual bool sent_part() { return false; }
  /// True when nothing that was sent still reads the caller's memory, and all of it, stable or not, will
  /// reach the peer without another call: before, only `progress` moves it, so nobody may turn to other work
  /// yet.
  virtual bool flushed() = 0;
  /// When that is not so: whether it takes the receiver, which is at it, longer than this processor needs to
  /// let others work and to come back.
  [[nodiscard]] virtual bool flushes_late() const { return false; }
  /// Of a FIFO to several readers: adds those whom a message of `bytes` waits for, as ranks of the group.
  virtual void name_slow_readers(std::size_t /*bytes*/, std::vector<Rank>& /*ranks*/) const {}
  /// Like `try_send` of `bytes` from `data`, which may change on return; but first the bytes of the placement
  /// go where it says. Who has received the message finds them there, as far as adapters are concerned: a
  /// GPU may have to be told. Only for memory that `Transport::register_device_memory` of both ends has
  /// registered.
  virtual bool try_place(const Placement& placement, const std::byte* data, std::size_t bytes, Tag tag);
};

/// The receiving end.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// The next message, readable until `release`; nullptr while it has not arrived. May be called again before
  /// `release` and then returns the same view. `bytes` is the size the caller expects. A message of another
  /// tag throws `Mismatch` (below); tags are made from sizes, so a transport need not carry these, but may. A
  /// message of 0 bytes yields some non-null pointer.
  virtual const std::byte* try_acquire(std::size_t bytes, Tag tag) = 0;
  /// Gives the view back, which returns the sender's credit.
  virtual void release() = 0;
  /// Acquire, copy to `into` and release in one call, or straight into place where the transport can. Returns
  /// false while the message is not complete; `into` may then hold a part of it, and the call must be
  /// repeated with equal arguments.
  virtual bool try_receive(std::byte* into, std::size_t bytes, Tag tag) = 0;
  /// Whether the last `try_receive`, though it returned false, received a part.
  virtual bool received_part() { return false; }
  /// Whether the next message, one of `bytes`, is missing, all of it, as far as can be told without moving
  /// anything.
  [[nodiscard]] virtual bool missing(std::size_t /*bytes*/) const { return true; }
  /// Asked when nothing has come for a while after an unsuccessful `try_` call for `bytes`: throws Mismatch
  /// if the peer has sent a message of another form than the one awaited.
  virtual void suspect(std::size_t /*bytes*/, Tag /*tag*/) {}
};

/// Thrown by a receiver whose next message belongs to another call. The communicator turns it into an
/// Error(mismatch) that names both calls.
struct Mismatch {
  Tag expected;
  Tag found;
  Rank from = -1;  ///< who sent it; -1: receivers do not say
};

}  // namespace tutti::transport
