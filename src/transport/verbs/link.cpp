#include "transport/verbs/link.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bootstrap/frame.hpp"

namespace tutti::transport::verbs {

namespace {

/// What the peer sent before it closed is still taken for so long.
constexpr std::chrono::milliseconds loss_grace{2};
// The scratch page: a header for each message that is sent from the caller's memory, then signals in turn.
constexpr std::size_t signals_at = 2048;
constexpr std::size_t signal_places = 512;
static_assert(std::size_t{channels} * slots * sizeof(Header) <= signals_at);
static_assert(signals_at + signal_places * sizeof(std::uint32_t) <= scratch_bytes);

/// Takes up to `most` bytes off the front of `from`.
Write take_front(Write& from, std::uint32_t most) {
  Write front;
  front.to = from.to;
  front.remote_key = from.remote_key;
  front.inlined = from.inlined;
  std::uint32_t taken = 0;
  for (int k = 0; k < from.piece_count && taken < most; ++k) {
    auto& piece = from.pieces[static_cast<std::size_t>(k)];
    const auto share = std::min(piece.length, most - taken);
    if (share == 0) continue;
    front.add({piece.addr, share, piece.lkey});
    piece.addr += share;
    piece.length -= share;
    taken += share;
  }
  from.to += taken;
  return front;
}

}  // namespace

Link::Link(Shared& shared, Rank peer, int rails) : shared_(shared), peer_(peer), rails_(rails) {
  senders_.reserve(channels);
  receivers_.reserve(channels);
  for (int channel = 0; channel < channels; ++channel) {
    senders_.emplace_back(*this, shared, channel);
    receivers_.emplace_back(*this, shared, channel);
  }
}

Link::~Link() { close_pairs(); }

std::size_t Link::rail_of(int channel, int part) const {
  return static_cast<std::size_t>((channel + part) % rails_);
}

bool Link::has_room(int channel, const Outgoing& message, int parts) const {
  for (int part = 0; part < parts; ++part) {
    const auto rail = rail_of(channel, part);
    const std::size_t longest = shared_.rails[rail]->port().longest_message;
    const auto length = part_of(message.header.bytes, parts, part).bytes + sizeof(Header);
    const bool extra = shared_.rails[rail]->signal_for(length) != Signal::immediate;
    auto needed = requests_of(length, longest, extra);
    if (part == 0 && message.placed.bytes > 0) needed += requests_of(message.placed.bytes, longest, false);
    if (pairs_[rail]->room() < static_cast<int>(needed)) return false;
  }
  return true;
}

bool Link::post(int channel, std::uint64_t sequence, Outgoing& message) {
  if (resting() && !finished()) introduce();
  if (!ready() || asked_ || finished() || !offers_[static_cast<std::size_t>(channel)]) return false;
  const std::size_t bytes = message.header.bytes;
  const int parts = parts_of(bytes, rails_, shared_.agreed.stripe_from);
  if (!has_room(channel, message, parts)) return false;
  used_at_ = shared_.now;
  message.parts_pending = parts;
  add_credits(channel, message.header);
  try {
    for (int part = 0; part < parts; ++part) post_part(channel, sequence, message, parts, part);
  } catch (const Error& error) {  // a batch was full before all were in it
    fail_unless_gone(error);
  }
  return true;
}

ibv_sge Link::scratch(std::size_t rail, std::size_t offset, const void* value, std::size_t bytes) {
  std::memcpy(scratch_->data() + offset, value, bytes);
  return {address_of(scratch_->data() + offset), static_cast<std::uint32_t>(bytes),
          scratch_->region()->local_key(rail)};
}

// Before the message, on its queue pair: the receiver's completion of the message says that both have come.
void Link::post_placed(std::size_t rail, const Outgoing& message) {
  const Outgoing::Placed& placed = message.placed;
  Write write;
  write.to = placed.to;
  write.remote_key = placed.remote_key;
  write.add(
      {address_of(placed.data), static_cast<std::uint32_t>(placed.bytes), placed.region->local_key(rail)});
  const std::uint32_t longest = shared_.rails[rail]->port().longest_message;
  for (std::size_t left = placed.bytes; left > 0; left -= std::min<std::size_t>(left, longest))
    pairs_[rail]->add(take_front(write, longest));
}

// What a part of a message is, before it is cut to what the port takes; the first one has the header in
// front.
Write Link::write_of(int channel, std::uint64_t sequence, const Outgoing& message, const Part& part,
                     int index) {
  const auto rail = rail_of(channel, index);
  const Offer& offer = *offers_[static_cast<std::size_t>(channel)];
  Write write;
  write.to = offer.address + sequence % slots * offer.stride + header_room + part.offset;
  write.remote_key = offer.keys.at(rail);
  write.inlined = message.inlined;
  const std::uint32_t key = message.inlined  ? 0
                            : message.region ? message.region->local_key(rail)
                                             : message.slot.region().local_key(rail);
  ibv_sge payload{address_of(message.data + part.offset), static_cast<std::uint32_t>(part.bytes), key};
  if (index == 0) {
    write.to -= sizeof(Header);
    if (message.inlined) {
      write.add({address_of(&message.header), sizeof(Header), 0});
    } else if (message.region) {
      write.add(scratch(rail, (static_cast<std::size_t>(channel) * slots + sequence % slots) * sizeof(Header),
                        &message.header, sizeof(Header)));
    } else {
      payload = {payload.addr - sizeof(Header), payload.length + static_cast<std::uint32_t>(sizeof(Header)),
                 key};
      std::memcpy(message.slot.payload() - sizeof(Header), &message.header, sizeof(Header));
    }
  }
  if (payload.length > 0) write.add(payload);
  return write;
}

void Link::post_part(int channel, std::uint64_t sequence, Outgoing& message, int parts, int index) {
  const auto rail = rail_of(channel, index);
  const Part part = part_of(message.header.bytes, parts, index);
  if (index == 0 && message.placed.bytes > 0) post_placed(rail, message);
  Write write = write_of(channel, sequence, message, part, index);
  std::size_t left = part.bytes + (index == 0 ? sizeof(Header) : 0);
  const Signal signal = shared_.rails[rail]->signal_for(left);
  QueuePair& pair = *pairs_[rail];
  const std::uint32_t longest = shared_.rails[rail]->port().longest_message;
  for (; left > longest; left -= longest) pair.add(take_front(write, longest));
  Write last = take_front(write, longest);
  last.signalled = message.region != nullptr || message.placed.region != nullptr;
  const Immediate immediate{false, channel, index, epoch_, static_cast<std::uint16_t>(sequence)};
  pending_[rail].push_back({add_signal(rail, signal, last, immediate), channel, sequence});
}

// Adds `write` and what tells the receiver that it is there.
std::uint64_t Link::add_signal(std::size_t rail, Signal signal, Write write, const Immediate& immediate) {
  QueuePair& pair = *pairs_[rail];
  ++signals_sent_.at(rail);
  const std::uint32_t bits = immediate.pack();
  if (signal != Signal::immediate) {
    Write plain = write;
    plain.signalled = false;
    if (plain.piece_count > 0) pair.add(plain);
    write.pieces = {};
    write.piece_count = 0;
    write.inlined = false;
  }
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.immediate = bits;
  if (signal == Signal::send) {
    const std::uint32_t value = htonl(bits);
    write.opcode = IBV_WR_SEND;
    write.add(
        scratch(rail, signals_at + next_signal_++ % signal_places * sizeof value, &value, sizeof value));
  }
  return pair.add(write);
}

void Link::ring() {
  try {
    for (auto& pair : pairs_) pair->ring();
  } catch (const Error& error) {
    fail_unless_gone(error);
  }
}

void Link::return_credit(int channel, std::uint64_t released) {
  released_[static_cast<std::size_t>(channel)] = released;
  if (post_credit(channel)) ring();
}

void Link::add_credits(int channel, Header& header) {
  for (int other = 0; other < channels; ++other) {
    const auto c = static_cast<std::size_t>(other);
    if (rail_of(other, 0) == rail_of(channel, 0)) told_[c] = released_[c];
    header.released[c] = static_cast<std::uint16_t>(told_[c]);
  }
}

void Link::take_credits(int channel, const Header& header) {
  if (header.magic != Header::expected_magic) return;  // who takes the message says so
  for (int other = 0; other < channels; ++other)
    if (rail_of(other, 0) == rail_of(channel, 0))
      sender(other).credit(header.released[static_cast<std::size_t>(other)]);
}

bool Link::post_credit(int channel) {
  const auto c = static_cast<std::size_t>(channel);
  const auto rail = rail_of(channel, 0);
  if (released_[c] - told_[c] < channel_credits || finished()) return false;
  // Messages may have been on their way when this side said how far it was and that it rests. Their sender
  // may be waiting for credits, and cannot wake a link on which it may not post.
  if (resting()) introduce();
  if (!ready() || asked_ || finished() || pairs_[rail]->room() < 1) return false;
  const Signal signal = shared_.rails[rail]->signal_for(0);
  add_signal(rail, signal, Write{},
             Immediate{true, channel, 0, epoch_, static_cast<std::uint16_t>(released_[c])});
  told_[c] = released_[c];
  return true;
}

void Link::retry() {
  if (finished()) return;
  if (control_.backlogged()) advance();
  connect_pairs();
  rest_if_agreed();
  bool posted = false;
  for (int channel = 0; channel < channels; ++channel) {
    posted = post_credit(channel) || posted;
    if (sender(channel).pending()) sender(channel).pump();
  }
  if (posted) ring();
}

void Link::complete(std::size_t rail, const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    // iWARP's connections end with the peer's, which may be seen before its goodbye.
    if (shared_.rails[rail]->manager() != nullptr && completion.status == IBV_WC_WR_FLUSH_ERR && !lost_at_)
      lost_at_ = Clock::now();
    return fail_unless_gone(completion_error(shared_.rails[rail]->place(peer_), completion.status,
                                             completion.vendor_err, shared_.rails[rail]->patience()));
  }
  if (Rail::is_receive(completion)) return take_signal(rail, completion);
  pairs_[rail]->completed(completion.wr_id);
  auto& pending = pending_[rail];
  while (!pending.empty() && pending.front().request <= completion.wr_id) {
    const Pending done = pending.front();
    pending.pop_front();
    sender(done.channel).part_done(done.sequence);
  }
}

std::uint64_t Link::completions_taken() const {
  std::uint64_t all = 0;
  for (std::size_t rail = 0; rail < pairs_.size(); ++rail)
    all += signals_taken_.at(rail) + pairs_[rail]->last_completed();
  return all;
}

// What came counts, also where no other can come in its place because the peer has left.
void Link::take_signal(std::size_t rail, const ibv_wc& completion) {
  const auto immediate = Immediate::unpack(shared_.rails[rail]->immediate_of(completion));
  try {
    shared_.rails[rail]->post_again(completion, *pairs_[rail], peer_);
  } catch (const Error& error) {
    fail_unless_gone(error);
  }
  if (immediate.epoch != epoch_) return violated("it sent a message of an earlier connection");
  if (immediate.channel >= channels || immediate.part >= rails_)
    return violated("it sent a signal of a channel or device that there is not");
  used_at_ = shared_.now;
  ++signals_taken_.at(rail);
  if (immediate.credit)
    sender(immediate.channel).credit(immediate.sequence);
  else
    receiver(immediate.channel).arrived(immediate.sequence, immediate.part);
}

void Link::check() {
  if (failure_) throw Error(*failure_);
  // By when completions were last taken: what came before the end may be among those that were not, if this
  // thread was kept from running since.
  if (lost_at_ && shared_.now - *lost_at_ > loss_grace)
    throw Error(
        ErrorCode::peer_lost,
        fmt::format("verbs to rank {}: it {}; that rank died or destroyed its communicator; look at its own "
                    "error first, then shrink or restart the group",
                    peer_, bye_taken_ ? "said goodbye" : "closed its control connection"),
        {peer_});
}

void Link::fail(const Error& why) {
  if (!failure_) {
    failure_ = bootstrap::with_context(why, "", {shared_.rank});
    stop_watching();
  }
  if (!shared_.failure) shared_.failure = failure_;
}

void Link::fail_unless_gone(const Error& why) {
  advance();
  if (!lost_at_ && !bye_taken_ && !control_.closed()) fail(why);
}

void Link::violated(const char* what) {
  fail(Error(ErrorCode::system,
             fmt::format("verbs to rank {}: {}; run the same build of tutti on all hosts", peer_, what),
             {peer_}));
}

}  // namespace tutti::transport::verbs
