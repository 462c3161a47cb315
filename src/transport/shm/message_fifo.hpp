/// \file
/// Both ends of a FIFO with one reader in shared memory. Its messages may have any length.
///
/// Long ones (`FifoMemory::long_from`) pass through slots in parts, so that the copies of both ends overlap;
/// or, where their reader can map or read their memory, they stay there: a slot holds only where that is, and
/// their reader copies them once and then acknowledges, which the sender waits for (`flushed`). The flag word
/// of the first part's second unit says which. What can be mapped always stays; what can be read by
/// cross-memory attach, where the sender finds that its messages arrive sooner so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/deadline.hpp"
#include "transport/shm/direct_memory.hpp"
#include "transport/shm/fifo.hpp"
#include "transport/shm/message_times.hpp"
#include "transport/shm/path_trial.hpp"

namespace tutti::transport::shm {

/// Long messages are sent by `try_send` only.
class MessageSender final : public ShmSender {
 public:
  /// `reader`: as a rank of this host. `shared_times`: where there are more ranks than processors.
  MessageSender(Wakes& wakes, const FifoMemory& memory, Rank reader, Traffic& traffic,
                const DirectMemory& direct, MessageTimes* shared_times);
  std::byte* try_reserve(std::size_t bytes) override;
  bool sent_part() override { return std::exchange(moved_, false); }
  bool flushed() override;
  [[nodiscard]] bool flushes_late() const override;

 private:
  struct Trial {
    std::size_t range;
    PathTrial paths;
    Clock::time_point since;  ///< begun; none: not yet
  };
  struct Message {
    MemoryOffer place;
    bool stays = false;                  ///< there
    Trial* timed_for = nullptr;          ///< nullptr: it is not timed
    Clock::time_point since;             ///< then: begun
    std::chrono::nanoseconds copying{};  ///< and so long at work on it, here
  };
  bool try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  [[nodiscard]] Message begin_message(const std::byte* data, std::size_t bytes, bool stable);
  [[nodiscard]] PathTrial::Cadence cadence_of(std::size_t bytes) const;
  Trial& trial_of(std::size_t bytes);
  void decide(Trial& trial) const;
  void publish_first(std::size_t part, Tag tag);
  void end_message(std::size_t bytes);
  void record_time();
  const DirectMemory& direct_;
  MessageTimes* shared_times_;
  std::array<std::unique_ptr<Trial>, send_ranges> trials_;
  Message message_;                ///< the present one, or the last
  bool begun_ = false;             ///< it is the present one
  std::size_t sent_ = 0;           ///< bytes of it that are in slots
  bool moved_ = false;             ///< the last `try_send` sent some, but not all
  std::uint32_t awaited_end_ = 0;  ///< behind the last message that stayed or was timed
  bool awaited_ = false;           ///< it may not have been read
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
  void tell_part();
  void tell_time();
  DirectMemory& direct_;
  bool offered_ = false;                ///< the present message is, once its first part was seen
  bool timed_ = false;                  ///< likewise
  std::chrono::nanoseconds copying_{};  ///< then: so far
  std::size_t received_ = 0;            ///< bytes of it
  bool moved_ = false;                  ///< the last `try_receive` received some, but not all
  MemoryOffer place_;                   ///< where it is, if it is offered
};

}  // namespace tutti::transport::shm
