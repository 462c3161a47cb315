/// \file
/// Both ends of a FIFO of sends and receives in shared memory. Its messages may have any length.
///
/// Long ones pass through slots in parts, so that the copies of both ends overlap; or, where their reader can
/// map their memory, they stay there: a slot holds only where that is, and their reader copies them once and
/// then acknowledges, which the sender waits for (`flushed`). The flag word of the first part's second unit
/// says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/shm/direct_memory.hpp"
#include "transport/shm/fifo.hpp"

namespace tutti::transport::shm {

/// Messages of so many bytes are long: shorter ones are not worth that their sender waits.
inline constexpr std::size_t long_message = 16384;
static_assert(long_message > line_message_max && long_message / unit_bytes >= 2);

/// Long messages are sent by `try_send` only.
class MessageSender final : public ShmSender {
 public:
  /// `reader`: as a rank of this host.
  MessageSender(Wakes& wakes, const FifoMemory& memory, Rank reader, Traffic& traffic,
                const DirectMemory& direct);
  std::byte* try_reserve(std::size_t bytes) override;
  bool sent_part() override { return std::exchange(moved_, false); }
  bool flushed() override;

 private:
  bool try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  bool try_offer(const std::byte* data, std::size_t bytes, std::byte* room, std::size_t part, Tag tag);
  void publish_first(std::size_t part, Tag tag, bool offered);
  const DirectMemory& direct_;
  std::size_t sent_ = 0;           ///< bytes of the present message that are in slots
  bool moved_ = false;             ///< the last `try_send` sent some, but not all
  std::uint32_t offered_end_ = 0;  ///< behind the last message that was offered
  bool offered_ = false;           ///< it may not have been read
};

/// Long messages are received by `try_receive` only.
class MessageReceiver final : public ShmReceiver {
 public:
  /// `writer`, `me`: ranks of this host.
  MessageReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me, Traffic& traffic,
                  DirectMemory& direct);
  const std::byte* try_acquire(std::size_t bytes, Tag tag) override;
  bool received_part() override { return std::exchange(moved_, false); }
  [[nodiscard]] bool missing(std::size_t bytes) const override;
  void suspect(std::size_t bytes, Tag tag) override;

 private:
  bool try_receive_long(std::byte* into, std::size_t bytes, Tag tag) override;
  [[nodiscard]] std::size_t part_at(std::size_t bytes) const;
  bool take_part(std::byte* into, std::size_t bytes, Tag tag);
  void begin_message(std::size_t bytes, const std::byte* first);
  std::size_t copy_offered(std::byte* into, std::size_t bytes);
  void finish(std::size_t bytes);
  DirectMemory& direct_;
  bool offered_ = false;      ///< the present message is, once its first part was seen
  std::size_t received_ = 0;  ///< bytes of it
  bool moved_ = false;        ///< the last `try_receive` received some, but not all
  MemoryOffer place_;         ///< where it is, if it is offered
};

}  // namespace tutti::transport::shm
