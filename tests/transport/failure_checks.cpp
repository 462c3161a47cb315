// Ranks that do not agree, and ranks that go away.
#include <tutti/error.hpp>

#include "rig.hpp"

namespace tutti::transport::testing {

namespace {

/// Runs `attempt` until it throws Mismatch, and compares.
template <class Attempt>
void require_mismatch(Rig& rig, Tag expected, Tag found, Attempt attempt) {
  try {
    rig.until(1, "a Mismatch", attempt);
  } catch (const Mismatch& mismatch) {
    require(mismatch.expected == expected && mismatch.found == found, "a Mismatch names the wrong tags");
    return;
  }
  throw Violation("a message of another call was taken for the one expected");
}

void wrong_tag(const Subject& subject) {
  for (const bool view : {false, true}) {
    Rig rig(subject, 2);
    Receiver& receiver = rig[1].receiver(0, 0);
    std::vector<std::byte> buffer(100);
    require(rig[0].sender(1, 0).try_send(buffer.data(), 100, 77, false), "an empty FIFO has no room");
    require_mismatch(rig, 78, 77, [&] {
      rig[0].progress();
      return view ? receiver.try_acquire(100, 78) != nullptr : receiver.try_receive(buffer.data(), 100, 78);
    });
  }
}

void wrong_size(const Subject& subject) {
  if (!subject.carries_sizes) throw NotOffered(subject.name + " does not carry sizes; tags stand for them");
  const std::size_t large = 3000;
  for (const std::size_t sent : {std::size_t{0}, std::size_t{8}, large})
    for (const std::size_t expected : {std::size_t{0}, std::size_t{8}, large}) {
      if (sent == expected) continue;
      Rig rig(subject, 2);
      Receiver& receiver = rig[1].receiver(0, 0);
      std::vector<std::byte> buffer(large);
      require(rig[0].sender(1, 0).try_send(buffer.data(), sent, 5, false), "an empty FIFO has no room");
      require_mismatch(rig, 5, 5, [&] {
        rig[0].progress();
        return receiver.try_receive(buffer.data(), expected, 5);
      });
    }
}

void require_lost(const Error& error) {
  require(error.code() == ErrorCode::peer_lost, "loss is reported as: " + std::string(error.what()));
  require(error.ranks() == std::vector<Rank>{1}, "the lost rank is not named");
}

/// Rank 1 goes away while rank 0 waits for its next message; `act` is what rank 0 tries.
template <class Act>
void require_loss_noticed(const Subject& subject, Act act) {
  if (!subject.notices_loss)
    throw NotOffered("the loss of a rank is noticed by the session, not by " + subject.name);
  Rig rig(subject, 2);
  std::byte ball{1};
  rig.run([&](Rank rank) {  // both directions are in use
    Sender& sender = rig[rank].sender(1 - rank, 0);
    rig.until(rank, "try_send", [&] { return sender.try_send(&ball, 1, 1, false); });
    std::byte other{};
    rig.until(rank, "a message", [&] { return rig[rank].receiver(1 - rank, 0).try_receive(&other, 1, 1); });
    rig.until(rank, "flushed", [&] { return sender.flushed(); });
  });
  rig.destroy(1);
  const Deadline deadline(std::min(subject.patience, std::chrono::milliseconds(10'000)));
  try {
    while (!deadline.passed()) {
      act(rig[0]);
      rig[0].progress();
      rig[0].wait(std::chrono::milliseconds(10));
    }
  } catch (const Error& error) {
    return require_lost(error);
  }
  throw Violation("it was not noticed that a rank had gone away");
}

void lost_while_receiving(const Subject& subject) {
  require_loss_noticed(subject, [](Transport& transport) {
    std::byte ball{};
    transport.receiver(1, 0).try_receive(&ball, 1, 2);
  });
}

void lost_while_sending(const Subject& subject) {
  std::vector<std::byte> large(65536);
  require_loss_noticed(subject, [&](Transport& transport) {
    transport.sender(1, 0).try_send(large.data(), std::min(large.size(), transport.max_message_bytes()), 2,
                                    false);
  });
}

/// What was published arrives, although its sender is gone.
void leaving_delivers(const Subject& subject) {
  Rig rig(subject, 2);
  const auto size = rig[0].max_message_bytes();
  rig.run([&](Rank rank) {
    std::vector<std::byte> buffer(size);
    if (rank == 0) {
      Sender& sender = rig[0].sender(1, 0);
      for (Tag tag = 0; tag < channel_credits; ++tag) {
        fill(buffer, tag);
        require(sender.try_send(buffer.data(), size, tag, false), "no room for a credit");
        scribble(buffer);
      }
      rig.destroy(0);
    } else {
      for (Tag tag = 0; tag < channel_credits; ++tag) {
        rig.until(1, "what a leaving rank published",
                  [&] { return rig[1].receiver(0, 0).try_receive(buffer.data(), size, tag); });
        require_filled(buffer, tag, "a message of a rank that left");
      }
    }
  });
}

}  // namespace

std::vector<Check> failure_checks() {
  return {{"wrong_tag", wrong_tag},
          {"wrong_size", wrong_size},
          {"lost_while_receiving", lost_while_receiving},
          {"lost_while_sending", lost_while_sending},
          {"leaving_delivers", leaving_delivers}};
}

}  // namespace tutti::transport::testing
