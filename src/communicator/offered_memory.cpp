#include <algorithm>

#include "communicator/task.hpp"

namespace tutti {

using transport::shm::Reach;

Reach OfferedMemory::resolve(transport::shm::DirectMemory& direct) {
  direct_ = &direct;
  Reach worst = Reach::mapped;
  for (const Offer& offer : offers) worst = std::max(worst, offer.reach);
  mapped_ = worst == Reach::mapped;
  places_.assign(offers.size(), {});
  if (!mapped_) return worst;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    const int local = static_cast<int>(r);
    if (offers[r].input.bytes != 0) places_[r].input = direct.map(local, offers[r].input);
    if (offers[r].output.bytes != 0) places_[r].output = direct.map(local, offers[r].output);
  }
  return worst;
}

std::byte* OfferedMemory::at(Rank peer, execution::Base base, std::uint64_t offset) {
  if (!mapped_) return nullptr;
  const Place& place = places_[static_cast<std::size_t>(peer)];
  return (base == execution::Base::peer_input ? place.input : place.output) + offset;
}

void OfferedMemory::read(Rank peer, execution::Base base, std::uint64_t offset, std::byte* into,
                         std::size_t bytes) {
  const Offer& offer = offers[static_cast<std::size_t>(peer)];
  const auto& memory = base == execution::Base::peer_input ? offer.input : offer.output;
  direct_->read(peer, memory.address + offset, into, bytes);
}

}  // namespace tutti
