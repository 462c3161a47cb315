/// \file
/// What a transport offers a communicator: FIFOs to the peers it reaches.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/types.hpp>

#include "transport/channel.hpp"

namespace tutti::transport {

class RemoteAccess;
struct Exposure;

/// The ranks of one communicator, as a transport sees them while it is set up.
struct Group {
  Rank rank = 0;  ///< in the communicator
  int size = 1;
  /// The same number on all its ranks, unlike that of any other of the session.
  std::uint64_t communicator = 0;
  std::vector<Rank> world;  ///< world[r]: world rank of rank r
  std::chrono::milliseconds timeout{30000};
  /// Every rank's bytes, in rank order. Collective over the group, blocking, bounded by `timeout`.
  std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)> all_gather;
  /// Throws Error(peer_lost) when a rank is known to have died; called now and then by whoever waits. May be
  /// empty.
  std::function<void()> check_members;
  /// Whether a rank is known to have destroyed its communicator, or to have died, as of the last
  /// `check_members`: asked by who awaits that rank alone, or connects to it. May be empty.
  std::function<bool(Rank)> gone;
};

/// Now and then, for who connects to `peer`: throws what ends that, Error(peer_lost) also when the peer is
/// gone.
void check_peer(const Group& group, Rank peer);

/// Counted since construction.
struct Traffic {
  std::uint64_t messages_sent = 0, bytes_sent = 0;
  std::uint64_t messages_received = 0, bytes_received = 0;
  std::uint64_t bytes_copied = 0;        ///< by the processor into or out of the transport's own buffers
  std::uint64_t bytes_direct = 0;        ///< received by reading the sender's memory
  std::uint64_t memory_held = 0;         ///< bytes of buffers and shared memory in use
  std::uint64_t queue_pairs = 0;         ///< that exist now
  std::uint64_t queue_pairs_closed = 0;  ///< because they were idle
};

/// Used by one thread at a time, like its channels.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Answered at plan time, never an exception at first use.
  [[nodiscard]] virtual bool reaches(Rank peer) const = 0;
  /// Why not, in words, for a peer it does not reach; by what path (interface, address), for one it does.
  [[nodiscard]] virtual std::string explain(Rank peer) const = 0;
  [[nodiscard]] virtual std::size_t max_message_bytes() const = 0;
  /// Whether messages of `message_channel` may be longer, and are sent and received in parts. (Those of
  /// schedules may be over shared memory: `execution::whole_block_over`.)
  [[nodiscard]] virtual bool cuts_messages() const { return false; }
  /// Bytes/s that this host's ports to the network carry each way; 0: nobody says, or there is no port.
  [[nodiscard]] virtual double port_rate() const { return 0; }

  /// The FIFO ends between this rank and `peer`; made on first use, which may block for a while (bounded by
  /// the group's timeout; Error(timeout), Error(peer_lost)), then owned by the transport. channel < channels;
  /// of shared memory also stream_channel.
  virtual Sender& sender(Rank peer, int channel) = 0;
  virtual Receiver& receiver(Rank peer, int channel) = 0;
  /// One FIFO to all other ranks of the group, when the transport reaches all of them and can do it better
  /// than with one FIFO each; otherwise nullptr. Distinct from the pairwise FIFOs of the same number. channel
  /// < schedule_channels, or lone_channel.
  virtual Sender* multicast_sender(int /*channel*/) { return nullptr; }
  virtual Receiver* multicast_receiver(Rank /*from*/, int /*channel*/) { return nullptr; }

  /// For windows: gives memory to the peers that this transport reaches. nullptr: it has no one-sided access.
  /// Throws Error(system).
  virtual std::unique_ptr<RemoteAccess> expose(const Exposure& exposure);
  /// Lets stable messages be sent from this memory without a copy while the result lives; nullptr where that
  /// makes no difference. Throws Error(system).
  virtual std::shared_ptr<void> register_memory(const std::byte* /*data*/, std::size_t /*bytes*/) {
    return nullptr;
  }

  /// Moves what can be moved, and wakes peers that sleep and have something to take; called while lanes wait,
  /// and before a rank goes on to something else. Throws Error when what was sent to any peer is lost.
  virtual void progress() = 0;
  /// Whether something that was sent, or a connection, waits for `progress`.
  [[nodiscard]] virtual bool backlogged() const { return false; }
  /// What arrives from now on, and room that comes free, ends the next `wait` at once, also where `progress`
  /// has found it in between: whoever looks once more after this, finds nothing and waits, misses nothing.
  /// Ends with `wait`, or with `cancel_wait`.
  virtual void prepare_wait() {}
  virtual void cancel_wait() {}
  /// Sleeps until something may have arrived or room may have come free; at most `longest`. May return early.
  virtual void wait(std::chrono::microseconds longest) = 0;
  /// In place of `wait`, for who sleeps on several transports (sleep.hpp): appends what poll(2) is to wait
  /// for. False: something may have come since `prepare_wait`, so `cancel_wait` follows.
  [[nodiscard]] virtual bool add_waits(std::vector<pollfd>& waits) = 0;
  /// And then: what poll(2) found of these. Ends what `prepare_wait` began.
  virtual void end_wait(std::span<const pollfd> waits) = 0;
  [[nodiscard]] virtual Traffic traffic() const = 0;

  /// Lets adapters send from this memory, and peers place bytes in it (`Sender::try_place`). Throws
  /// Error(unsupported, system), which says why, where no adapter reaches it.
  virtual std::unique_ptr<RegisteredDeviceMemory> register_device_memory(const DeviceMemory& memory);
};

}  // namespace tutti::transport
