/// \file
/// The receiving end of a FIFO over RDMA: registered slots that the peer writes to.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "transport/channel.hpp"
#include "transport/verbs/shared.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

class Link;

class VerbsReceiver final : public Receiver {
 public:
  VerbsReceiver(Link& link, Shared& shared, int channel) : link_(link), shared_(shared), channel_(channel) {}

  const std::byte* try_acquire(std::size_t bytes, Tag tag) override;
  void release() override;
  bool try_receive(std::byte* into, std::size_t bytes, Tag tag) override;

  /// The slots, registered on first use. Throws Error(system).
  Offer offer();
  /// A part of a message is in its slot; the first brings credits.
  void arrived(std::uint16_t sequence, int part);
  /// Nothing has come that is not released.
  [[nodiscard]] bool empty() const;
  /// Messages whose bytes are all here, released or not.
  [[nodiscard]] std::uint64_t complete_count() const;

 private:
  [[nodiscard]] std::byte* payload(std::uint64_t message) const;
  [[nodiscard]] Header header(std::uint64_t message) const;
  [[nodiscard]] std::uint32_t& parts(std::uint64_t message) { return parts_[message % slots]; }
  [[nodiscard]] bool whole(std::uint64_t message, std::size_t bytes) const;
  bool complete(std::size_t bytes, Tag tag);

  Link& link_;
  Shared& shared_;
  int channel_;
  std::unique_ptr<Block> block_;
  std::array<std::uint32_t, slots> parts_{};  ///< bit p: part p of the message in this slot has come
  std::uint64_t released_ = 0;
};

}  // namespace tutti::transport::verbs
