// One FIFO to all other ranks, where a transport has it.
#include <algorithm>
#include <memory>

#include "traffic.hpp"

namespace tutti::transport::testing {

namespace {

Sender& multicast_of(Rig& rig, Rank rank, int channel) {
  Sender* sender = rig[rank].multicast_sender(channel);
  if (sender == nullptr) throw NotOffered(std::string(rig[rank].name()) + " has no multicast");
  return *sender;
}

/// Every rank to all others at once, random ways on both sides.
void everybody_gets_everything(const Subject& subject, int ranks, int channel) {
  Rig rig(subject, ranks);
  static_cast<void>(multicast_of(rig, 0, 0));
  std::vector<Script> scripts;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto seed = static_cast<std::uint64_t>(rank) + 1;
    scripts.push_back({seed, random_sizes(seed, 100, rig[0].max_message_bytes())});
  }
  rig.run([&](Rank rank) {
    Feeder feeder(multicast_of(rig, rank, channel), scripts[static_cast<std::size_t>(rank)]);
    std::vector<std::unique_ptr<Taker>> takers;
    for (Rank from = 0; from < ranks; ++from) {
      if (from == rank) continue;
      Receiver* receiver = rig[rank].multicast_receiver(from, channel);
      require(receiver != nullptr, "a multicast sender without receivers");
      takers.push_back(std::make_unique<Taker>(*receiver, scripts[static_cast<std::size_t>(from)],
                                               "multicast of rank " + std::to_string(from)));
    }
    rig.until(rank, "multicast traffic to end", [&] {
      bool done = feeder.step();
      for (auto& taker : takers) done = taker->step() && done;
      return done;
    });
  });
}

void multicast_to_1(const Subject& subject) { everybody_gets_everything(subject, 2, 1); }
void multicast_to_2(const Subject& subject) { everybody_gets_everything(subject, 3, 1); }
void multicast_to_4(const Subject& subject) { everybody_gets_everything(subject, 5, 1); }
void multicast_of_lone_writers(const Subject& subject) {
  everybody_gets_everything(subject, 4, lone_channel);
}

/// The slowest reader holds the sender back, and loses nothing.
void slow_reader_throttles(const Subject& subject) {
  Rig rig(subject, 3);
  Sender& sender = multicast_of(rig, 0, 0);
  const auto size = rig[0].max_message_bytes();
  const auto far_too_many = static_cast<Tag>((std::size_t{128} << 20) / size);
  std::vector<std::byte> buffer(size);
  Tag sent = 0;
  Tag taken = 0;
  for (int refused = 0; refused < 20 && sent < far_too_many;) {  // rank 1 reads, rank 2 does not
    fill({buffer.data(), 64}, sent);
    const bool accepted = sender.try_send(buffer.data(), size, sent, false);
    sent += accepted ? 1 : 0;
    refused = accepted ? 0 : refused + 1;
    if (taken < sent && rig[1].multicast_receiver(0, 0)->try_receive(buffer.data(), size, taken)) ++taken;
    rig[0].progress();
  }
  require(sent >= channel_credits, "a multicast FIFO holds less than its credits");
  require(sent < far_too_many, "a multicast sender does not wait for its slowest reader");
  for (Rank rank : {1, 2})
    for (Tag tag = rank == 1 ? taken : 0; tag < sent; ++tag) {
      rig.until(rank, "what a slow reader had left", [&] {
        rig[0].progress();
        return rig[rank].multicast_receiver(0, 0)->try_receive(buffer.data(), size, tag);
      });
      require_filled({buffer.data(), 64}, tag, "a message to a slow reader");
    }
  rig.until(0, "room after the slow reader has read", [&] {
    rig[1].progress();
    rig[2].progress();
    return sender.try_reserve(size) != nullptr;
  });
}

}  // namespace

std::vector<Check> multicast_checks() {
  return {{"multicast_to_1", multicast_to_1},
          {"multicast_to_2", multicast_to_2},
          {"multicast_to_4", multicast_to_4},
          {"multicast_of_lone_writers", multicast_of_lone_writers},
          {"slow_reader_throttles", slow_reader_throttles}};
}

}  // namespace tutti::transport::testing
