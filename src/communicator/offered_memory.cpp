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

const transport::shm::MemoryOffer& OfferedMemory::memory_of(Rank peer, execution::Base base) const {
  const Offer& offer = offers[static_cast<std::size_t>(peer)];
  return base == execution::Base::peer_input ? offer.input : offer.output;
}

void OfferedMemory::read(Rank peer, execution::Base base, std::uint64_t offset, std::byte* into,
                         std::size_t bytes) {
  direct_->read(peer, memory_of(peer, base).address + offset, into, bytes);
}

void OfferedMemory::write(Rank peer, execution::Base base, std::uint64_t offset, const std::byte* from,
                          std::size_t bytes) {
  direct_->write(peer, memory_of(peer, base).address + offset, from, bytes);
}

}  // namespace tutti
