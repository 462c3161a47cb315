/// \file
/// The sending end of a FIFO over RDMA.
///
/// A message waits in one of the entries until its slot at the receiver is free, then is written there. It
/// is read from the work request itself when it is short, from the caller's memory when that is registered
/// and stable, else from a registered copy.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "transport/channel.hpp"
#include "transport/verbs/shared.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

class Link;

/// A message on its way, as a Link posts it.
struct Outgoing {
  Header header;
  const std::byte* data = nullptr;  ///< payload: in `small`, `slot` or `region`
  std::array<std::byte, 256> small;
  Slot slot;
  std::shared_ptr<const Region> region;  ///< the caller's
  /// What is written first, elsewhere; 0 bytes: nothing.
  struct Placed {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t to = 0;
    std::uint32_t remote_key = 0;
    std::shared_ptr<const Region> region;
  } placed;
  bool inlined = false;
  int parts_pending = 0;  ///< posted and not completed
};

class VerbsSender final : public Sender {
 public:
  VerbsSender(Link& link, Shared& shared, int channel) : link_(link), shared_(shared), channel_(channel) {}

  std::byte* try_reserve(std::size_t bytes) override;
  void publish(std::size_t bytes, Tag tag) override;
  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  bool try_place(const Placement& placement, const std::byte* data, std::size_t bytes, Tag tag) override;
  bool flushed() override;

  /// Posts what can be posted.
  void pump();
  /// The receiver has released that many messages, modulo 2^16.
  void credit(std::uint16_t released);
  /// A part of message `sequence` has completed.
  void part_done(std::uint64_t sequence);
  /// The peer left, having received that many messages.
  void delivered(std::uint64_t count);
  /// All that was posted has been released.
  [[nodiscard]] bool all_credited() const { return credited_ == posted_; }
  /// Something was accepted and not posted.
  [[nodiscard]] bool pending() const { return posted_ < end_; }

 private:
  [[nodiscard]] Outgoing& entry(std::uint64_t message) { return entries_[message % entries_.size()]; }
  [[nodiscard]] bool full();
  [[nodiscard]] bool fits_inline(std::size_t bytes) const;
  std::byte* room_for(std::size_t bytes);
  void push(const std::byte* data, std::size_t bytes, Tag tag);
  bool done(std::uint64_t message);
  void free_done();

  Link& link_;
  Shared& shared_;
  int channel_;
  std::array<Outgoing, slots> entries_;
  // Numbers of messages: freed <= posted <= end, credited <= posted.
  std::uint64_t end_ = 0;        ///< accepted
  std::uint64_t posted_ = 0;     ///< given to the devices
  std::uint64_t freed_ = 0;      ///< nothing reads their memory any more
  std::uint64_t credited_ = 0;   ///< released by the receiver
  std::uint64_t delivered_ = 0;  ///< arrived, as the peer said when it left
};

}  // namespace tutti::transport::verbs
