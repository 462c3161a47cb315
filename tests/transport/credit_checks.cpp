// How much a FIFO holds before its receiver takes anything.
#include <algorithm>

#include "rig.hpp"

namespace tutti::transport::testing {

namespace {

/// `channel_credits` messages of `size` are accepted at once, by a FIFO whose receiver does nothing, round
/// after round.
void holds(const Subject& subject, std::size_t size, bool reserve) {
  Rig rig(subject, 2);
  if (size == 0) size = rig[0].max_message_bytes();
  Sender& sender = rig[0].sender(1, 0);
  std::vector<std::byte> buffer(size);
  for (int round = 0; round < 3; ++round) {
    for (Tag tag = 0; tag < channel_credits; ++tag) {
      fill(buffer, tag);
      if (reserve) {
        std::byte* room = sender.try_reserve(size);
        require(room != nullptr, "no room for credit " + std::to_string(tag));
        std::copy_n(buffer.data(), size, room);
        sender.publish(size, tag);
      } else {
        require(sender.try_send(buffer.data(), size, tag, false),
                "no room for credit " + std::to_string(tag));
        scribble(buffer);
      }
    }
    for (Tag tag = 0; tag < channel_credits; ++tag) {
      rig.until(1, "what the FIFO holds", [&] {
        rig[0].progress();
        return rig[1].receiver(0, 0).try_receive(buffer.data(), size, tag);
      });
      require_filled(buffer, tag, "a message that the FIFO held");
    }
    rig.until(0, "the credits to return", [&] {
      rig[1].progress();
      return sender.flushed() && (round == 2 || sender.try_reserve(size) != nullptr);
    });
  }
}

void holds_its_credits(const Subject& subject) { holds(subject, 0, false); }
void holds_its_credits_reserved(const Subject& subject) { holds(subject, 0, true); }
void holds_small_messages(const Subject& subject) { holds(subject, 9, false); }

/// A FIFO does not swallow without end, and what it accepted arrives.
void full_fifo_refuses(const Subject& subject) {
  Rig rig(subject, 2);
  const auto size = rig[0].max_message_bytes();
  const auto far_too_many = static_cast<Tag>((std::size_t{128} << 20) / size);
  Sender& sender = rig[0].sender(1, 0);
  std::vector<std::byte> buffer(size);
  Tag sent = 0;
  // The kernel may still move some: only lasting refusal counts.
  for (int refused = 0; refused < 20 && sent < far_too_many;) {
    fill({buffer.data(), 64}, sent);
    const bool taken = sender.try_send(buffer.data(), size, sent, false);
    sent += taken ? 1 : 0;
    refused = taken ? 0 : refused + 1;
    if (!taken) rig[0].wait(std::chrono::milliseconds(1));
    rig[0].progress();
  }
  require(sent < far_too_many, "a FIFO accepts more than 128 MiB that nobody takes");
  for (Tag tag = 0; tag < sent; ++tag) {
    rig.until(1, "what a full FIFO holds", [&] {
      rig[0].progress();
      return rig[1].receiver(0, 0).try_receive(buffer.data(), size, tag);
    });
    require_filled({buffer.data(), 64}, tag, "a message of a full FIFO");
  }
}

/// Stable memory is read where it lies; it may change after `flushed`, and not a byte of a message changes
/// with it.
void stable_until_flushed(const Subject& subject) {
  Rig rig(subject, 2);
  const auto size = rig[0].max_message_bytes();
  Sender& sender = rig[0].sender(1, 0);
  std::vector<std::vector<std::byte>> lent(channel_credits, std::vector<std::byte>(size));
  for (Tag tag = 0; tag < channel_credits; ++tag) {
    fill(lent[tag], tag);
    require(sender.try_send(lent[tag].data(), size, tag, true), "no room for a stable message");
  }
  bool mine_again = false;
  const auto look = [&] {
    rig[0].progress();
    if (mine_again || !sender.flushed()) return;
    mine_again = true;
    for (auto& bytes : lent) scribble(bytes);
  };
  std::vector<std::byte> buffer(size);
  for (Tag tag = 0; tag < channel_credits; ++tag) {
    rig.until(1, "a stable message", [&] {
      look();
      return rig[1].receiver(0, 0).try_receive(buffer.data(), size, tag);
    });
    require_filled(buffer, tag, "a stable message");
  }
  rig.until(0, "flushed, when all was received", [&] {
    look();
    rig[1].progress();
    return mine_again;
  });
}

}  // namespace

std::vector<Check> credit_checks() {
  return {{"holds_its_credits", holds_its_credits},
          {"holds_its_credits_reserved", holds_its_credits_reserved},
          {"holds_small_messages", holds_small_messages},
          {"full_fifo_refuses", full_fifo_refuses},
          {"stable_until_flushed", stable_until_flushed}};
}

}  // namespace tutti::transport::testing
