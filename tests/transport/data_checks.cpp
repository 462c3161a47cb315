// Messages arrive whole, in order, whatever way they are sent and received.
#include <poll.h>

#include <algorithm>
#include <atomic>

#include "shm_ranks.hpp"
#include "traffic.hpp"
#include "transport/sleep.hpp"

namespace tutti::transport::testing {

namespace {

std::vector<std::size_t> corner_sizes(std::size_t max) {
  std::vector<std::size_t> sizes{0, 1, 7, 56, 57, 64, 2047, 2048, 2049, 4096, 65536, max - 1, max};
  std::erase_if(sizes, [max](std::size_t size) { return size > max; });
  return sizes;
}

/// Every size in every way of sending and receiving, one after the other.
void sizes_in_order(const Subject& subject) {
  Rig rig(subject, 2);
  const auto sizes = corner_sizes(rig[0].max_message_bytes());
  const auto each = [&](auto body) {
    Tag tag = 1;
    for (const int send : {0, 1, 2})
      for (const bool view : {false, true})
        for (const auto size : sizes) body(send, view, size, tag++);
  };
  rig.run([&](Rank rank) {
    std::vector<std::byte> buffer(rig[0].max_message_bytes());
    if (rank == 0) {
      Sender& sender = rig[0].sender(1, 0);
      each([&](int way, bool, std::size_t size, Tag tag) {
        rig.until(0, "flushed before the next message", [&] { return sender.flushed(); });
        fill({buffer.data(), size}, tag);
        if (way < 2)
          return rig.until(0, "try_send",
                           [&] { return sender.try_send(buffer.data(), size, tag, way == 1); });
        std::byte* room = nullptr;
        rig.until(0, "try_reserve", [&] { return (room = sender.try_reserve(size)) != nullptr; });
        std::copy_n(buffer.data(), size, room);
        sender.publish(size, tag);
      });
      rig.until(0, "flushed at the end", [&] { return sender.flushed(); });
    } else {
      Receiver& receiver = rig[1].receiver(0, 0);
      each([&](int, bool view, std::size_t size, Tag tag) {
        const std::byte* found = buffer.data();
        rig.until(1, "a message of " + std::to_string(size) + " bytes", [&] {
          return view ? (found = receiver.try_acquire(size, tag)) != nullptr
                      : receiver.try_receive(buffer.data(), size, tag);
        });
        require_filled({found, size}, tag, "message " + std::to_string(tag));
        if (view) receiver.release();
      });
    }
  });
}

/// All pairs of `ranks` on `channels` channels at once, one polling thread a rank, random sizes and ways.
void random_traffic(const Subject& subject, int ranks, int channels, std::size_t messages, bool only_large) {
  Rig rig(subject, ranks);
  const auto max = rig[0].max_message_bytes();
  std::vector<Script> scripts(static_cast<std::size_t>(ranks * ranks * channels));
  const auto script_of = [&](Rank from, Rank to, int channel) -> Script& {
    return scripts[static_cast<std::size_t>((from * ranks + to) * channels + channel)];
  };
  for (std::size_t i = 0; i < scripts.size(); ++i)
    scripts[i] = {i + 1, only_large ? std::vector(messages, max) : random_sizes(i, messages, max),
                  static_cast<int>(i) % channels != message_channel};
  rig.run([&](Rank rank) {
    std::vector<Feeder> feeders;
    std::vector<Taker> takers;
    for (Rank peer = 0; peer < ranks; ++peer)
      for (int channel = 0; peer != rank && channel < channels; ++channel) {
        const auto name =
            std::to_string(peer) + " -> " + std::to_string(rank) + " channel " + std::to_string(channel);
        if (rank % 2 == 0)
          takers.emplace_back(rig[rank].receiver(peer, channel), script_of(peer, rank, channel), name);
        feeders.emplace_back(rig[rank].sender(peer, channel), script_of(rank, peer, channel));
        if (rank % 2 != 0)
          takers.emplace_back(rig[rank].receiver(peer, channel), script_of(peer, rank, channel), name);
      }
    rig.until(rank, "random traffic to end", [&] {
      bool done = true;
      for (auto& feeder : feeders) done = feeder.step() && done;
      for (auto& taker : takers) done = taker.step() && done;
      return done;
    });
  });
}

void pair_random(const Subject& subject) { random_traffic(subject, 2, 1, 200, false); }
void three_random(const Subject& subject) { random_traffic(subject, 3, 2, 40, false); }
void eight_all_to_all(const Subject& subject) { random_traffic(subject, 8, 1, 6, false); }
void flood_all_channels(const Subject& subject) { random_traffic(subject, 2, channels, 16, true); }

/// The view does not change while its sender sends on until it is refused.
void view_stays(const Subject& subject) {
  Rig rig(subject, 2);
  const std::size_t size = std::min<std::size_t>(rig[0].max_message_bytes(), 65536);
  Sender& sender = rig[0].sender(1, 0);
  Receiver& receiver = rig[1].receiver(0, 0);
  std::vector<std::byte> buffer(size);
  fill(buffer, 0);
  require(sender.try_send(buffer.data(), size, 0, false), "the first message was refused");
  const std::byte* view = nullptr;
  rig.until(1, "the first message", [&] {
    rig[0].progress();
    return (view = receiver.try_acquire(size, 0)) != nullptr;
  });
  Tag sent = 1;
  for (int attempts = 0; attempts < 200; ++attempts) {
    fill(buffer, sent);
    if (sender.try_send(buffer.data(), size, sent, false)) ++sent;
    rig[0].progress();
    rig[1].progress();
    require(receiver.try_acquire(size, 0) == view, "a view moved before its release");
  }
  require_filled({view, size}, 0, "a view while its sender sends on");
  receiver.release();
  for (Tag tag = 1; tag < sent; ++tag) {
    rig.until(1, "what was sent meanwhile", [&] {
      rig[0].progress();
      return receiver.try_receive(buffer.data(), size, tag);
    });
    require_filled(buffer, tag, "a message sent behind a view");
  }
}

/// Room that is reserved waits, whatever happens on other channels.
void reserved_room_stays(const Subject& subject) {
  Rig rig(subject, 2);
  Sender& sender = rig[0].sender(1, 0);
  Sender& other = rig[0].sender(1, 1);
  std::byte* room = sender.try_reserve(1000);
  require(room != nullptr, "an empty FIFO has no room");
  fill({room, 1000}, 5);
  for (Tag tag = 0; tag < channel_credits; ++tag) {
    require(other.try_send(room, 1000, tag, false), "another channel has no room");
    rig[0].progress();
    require(sender.try_reserve(1000) == room, "a second try_reserve gave other room before publish");
  }
  sender.publish(1000, 9);
  std::vector<std::byte> buffer(1000);
  rig.until(1, "the reserved message", [&] {
    rig[0].progress();
    return rig[1].receiver(0, 0).try_receive(buffer.data(), 1000, 9);
  });
  require_filled(buffer, 5, "a reserved message");
}

/// Two ranks take turns, and the one that waits sleeps, on `beside`, too. A message ends the sleep, if not
/// each time (an implementation may miss one), then mostly.
void take_turns_asleep(const Subject& subject, const Transports& beside) {
  Rig rig(subject, 2);
  constexpr Tag rounds = 40;
  constexpr std::chrono::milliseconds longest(100);
  const Deadline enough(rounds * longest / 2);
  rig.run([&](Rank rank) {
    Sender& sender = rig[rank].sender(1 - rank, 0);
    Receiver& receiver = rig[rank].receiver(1 - rank, 0);
    std::byte ball{};
    std::vector<Transport*> on{&rig[rank]};
    if (!beside.empty()) on.push_back(beside[static_cast<std::size_t>(rank)].get());
    Sleep sleep(std::move(on));
    for (Tag round = 0; round < rounds; ++round) {
      sleep.cancel();
      if (round % 2 == static_cast<Tag>(rank)) {
        rig.until(rank, "to serve", [&] { return sender.try_send(&ball, 1, round, false); });
        continue;
      }
      const Deadline deadline(subject.patience);
      while (!receiver.try_receive(&ball, 1, round)) {
        require(!deadline.passed(), "a sleeping rank was never woken, in round " + std::to_string(round));
        sleep.prepare();
        if (receiver.try_receive(&ball, 1, round)) break;
        sleep.wait(longest);
      }
    }
    // Who served last stays until that is on its way: only its own calls move it.
    rig.until(rank, "flushed at the end", [&] { return sender.flushed(); });
  });
  require(!enough.passed(), "waits are not ended by messages");
}

void sleeper_is_woken(const Subject& subject) { take_turns_asleep(subject, {}); }
void sleeper_on_several_is_woken(const Subject& subject) { take_turns_asleep(subject, shm_ranks(2)); }

/// Once flushed, all that was sent arrives although its sender turns to other work; `stable` or not.
void flushed_is_enough(const Subject& subject) {
  for (const bool stable : {false, true}) {
    Rig rig(subject, 2);
    const auto size = rig[0].max_message_bytes();
    const auto messages =
        static_cast<Tag>((std::size_t{12} << 20) / size) + channel_credits;  // more than a kernel holds
    std::atomic<bool> received{false};
    rig.run([&](Rank rank) {
      std::vector<std::byte> buffer(size);
      if (rank == 0) {
        Sender& sender = rig[0].sender(1, 0);
        for (Tag tag = 0; tag < messages; ++tag)
          rig.until(0, "try_send", [&] { return sender.try_send(buffer.data(), size, tag, stable); });
        rig.until(0, "flushed", [&] { return sender.flushed(); });
        const Deadline deadline(subject.patience);
        while (!received && !deadline.passed()) ::poll(nullptr, 0, 1);  // without a call
        require(received, "what was flushed did not arrive without its sender's help");
      } else {
        for (Tag tag = 0; tag < messages; ++tag)
          rig.until(1, "a flushed message",
                    [&] { return rig[1].receiver(0, 0).try_receive(buffer.data(), size, tag); });
        received = true;
      }
    });
  }
}

/// The counters equal what was sent.
void traffic_is_counted(const Subject& subject) {
  Rig rig(subject, 2);
  Sender& sender = rig[0].sender(1, 2);
  Receiver& receiver = rig[1].receiver(0, 2);
  std::vector<std::byte> buffer(5000);
  std::uint64_t bytes = 0;
  for (const std::size_t size : {0UL, 1UL, 100UL, 5000UL}) {
    rig.until(0, "try_send", [&] { return sender.try_send(buffer.data(), size, 3, false); });
    rig.until(1, "the message", [&] {
      rig[0].progress();
      return receiver.try_receive(buffer.data(), size, 3);
    });
    bytes += size;
  }
  const auto from = rig[0].traffic();
  const auto to = rig[1].traffic();
  require(from.messages_sent == 4 && from.bytes_sent == bytes, "the sender's counters are wrong");
  require(to.messages_received == 4 && to.bytes_received == bytes, "the receiver's counters are wrong");
  require(from.messages_received == 0 && to.messages_sent == 0, "messages counted in the wrong direction");
}

/// Questions that are asked before any use.
void answers_questions(const Subject& subject) {
  Rig rig(subject, 2);
  require(!rig[0].name().empty(), "no name");
  require(rig[0].reaches(1) && rig[1].reaches(0), "does not reach its peer");
  require(!rig[0].explain(1).empty(), "explains nothing");
  require(rig[0].max_message_bytes() >= 4096, "max_message_bytes is below a page");
  require(rig[0].max_message_bytes() == rig[1].max_message_bytes(), "ranks differ in max_message_bytes");
  require(&rig[0].sender(1, 3) == &rig[0].sender(1, 3), "another sender for the same channel");
  require(&rig[0].receiver(1, 3) == &rig[0].receiver(1, 3), "another receiver for the same channel");
}

}  // namespace

std::vector<Check> data_checks() {
  return {{"sizes_in_order", sizes_in_order},
          {"pair_random", pair_random},
          {"three_random", three_random},
          {"eight_all_to_all", eight_all_to_all},
          {"flood_all_channels", flood_all_channels},
          {"view_stays", view_stays},
          {"reserved_room_stays", reserved_room_stays},
          {"sleeper_is_woken", sleeper_is_woken},
          {"sleeper_on_several_is_woken", sleeper_on_several_is_woken},
          {"flushed_is_enough", flushed_is_enough},
          {"traffic_is_counted", traffic_is_counted},
          {"answers_questions", answers_questions}};
}

}  // namespace tutti::transport::testing
