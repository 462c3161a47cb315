#include "transport/verbs/slot_pool.hpp"

#include <utility>

#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

Slot::Slot(Slot&& other) noexcept
    : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)), region_(other.region_) {}

Slot& Slot::operator=(Slot&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = other.pool_;
    data_ = std::exchange(other.data_, nullptr);
    region_ = other.region_;
  }
  return *this;
}

std::byte* Slot::payload() const { return data_ + header_room; }

void Slot::reset() {
  if (data_ != nullptr) pool_->free_.push_back({std::exchange(data_, nullptr), region_});
}

SlotPool::SlotPool(Verbs& verbs, Domains domains, std::size_t message_bytes, std::uint64_t& held)
    : verbs_(verbs), domains_(std::move(domains)), stride_(slot_stride(message_bytes)), held_(held) {}

Slot SlotPool::take() {
  if (free_.empty()) grow();
  const auto [data, region] = free_.back();
  free_.pop_back();
  return {*this, data, region};
}

void SlotPool::grow() {
  blocks_.push_back(std::make_unique<Block>(verbs_, domains_, stride_ * slots, Access::local_read));
  held_ += blocks_.back()->bytes();
  free_.reserve(blocks_.size() * slots);  // so that giving back cannot fail
  for (int k = slots; k-- > 0;)
    free_.push_back(
        {blocks_.back()->data() + static_cast<std::size_t>(k) * stride_, blocks_.back()->region().get()});
}

std::size_t slot_stride(std::size_t message_bytes) { return header_room + (message_bytes + 63) / 64 * 64; }

}  // namespace tutti::transport::verbs
