#include "gpu/regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include <tutti/error.hpp>

#include "communicator/check.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"

namespace tutti::gpu {

// What was released everywhere is given back; no rank's kernels reach it any more.
void Regions::drop_released() {
  std::uint64_t released = 0;
  static_assert(device::max_regions <= 64);
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (!all_[i]->used || all_[i]->token.expired()) released |= std::uint64_t{1} << i;
  for (const std::uint64_t theirs : all_gather(setting_.group, released)) released &= theirs;
  const auto dropped = [&](std::size_t i) { return (released >> i & 1) != 0; };
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (dropped(i)) all_[i]->peers = {};
  if (released != 0) static_cast<void>(setting_.group.all_gather({}));  // it is closed before it is freed
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (dropped(i)) *all_[i] = Region{};
  if (released != 0) transport::do_together(setting_.group, [&] { publish(); });
}

void Regions::close_peers() {
  for (const auto& region : all_) region->peers = {};
}

void Regions::abandon() noexcept {
  for (const auto& region : all_) static_cast<void>(region->owned.release());
}

Regions::Region& Regions::free_one() {
  const auto found = std::ranges::find_if(all_, [](const auto& region) { return !region->used; });
  if (found != all_.end()) return **found;
  if (all_.size() == device::max_regions)
    throw Error(ErrorCode::unsupported,
                fmt::format("a Gpu has {} pieces of memory allocated or registered, and room for no more",
                            device::max_regions));
  return *all_.emplace_back(std::make_unique<Region>());
}

Regions::Allocated Regions::allocate(std::size_t bytes) {
  drop_released();
  Region& region = free_one();
  DeviceMemory owned;
  std::string failure;
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;  // rounded up, more could become little
  if (bytes > most) failure = "allocate: no device has that much memory";
  try {
    if (failure.empty()) owned = connection_.allocate_shared(std::max<std::size_t>(bytes, 1));
  } catch (const Error& error) {
    failure = error.what();
  }
  transport::fail_together(setting_.group, ErrorCode::unsupported, failure);
  std::byte* const data = owned.get();
  region.owned = std::move(owned);
  Token token = share(region, {data, std::max<std::size_t>(bytes, 1)});
  return {std::move(token), data};
}

Regions::Token Regions::add(std::span<std::byte> memory) {
  drop_released();
  return share(free_one(), memory);
}

Regions::Token Regions::share(Region& region, std::span<std::byte> memory) {
  SharedMemory peers;
  std::string failure;
  if (connection_.all_by_device() && !connection_.one_address_space()) {
    peers = SharedMemory(api_, setting_, connection_.peers(), memory);
    for (Rank r = 0; r < setting_.group.size && failure.empty(); ++r)
      if (peers.of(r).data == nullptr) failure = peers.of(r).why_not;
  }
  const std::vector<std::string> failures = all_gather(setting_.group, failure);
  if (std::ranges::any_of(failures, [](const std::string& why) { return !why.empty(); })) {
    peers = {};
    static_cast<void>(setting_.group.all_gather({}));  // it is closed before it is freed
    region.owned.reset();
    transport::fail_together(setting_.group, ErrorCode::unsupported, failure);
  }
  const auto token = std::make_shared<char>();
  region.token = token;
  region.memory = memory;
  region.peers = std::move(peers);
  region.used = true;
  transport::do_together(setting_.group, [&] {
    region.allocation = api_->allocation_id(memory.data());
    publish();
  });
  return token;
}

void Regions::publish() {
  if (!connection_.all_by_device() || connection_.one_address_space()) return;
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (Rank r = 0; r < setting_.group.size; ++r) {
      device::Region on_device;
      if (all_[i]->used) {
        const PeerMemory& memory = all_[i]->peers.of(r);
        on_device = {memory.theirs, memory.bytes, memory.data};
      }
      connection_.set_region(r, i, on_device);
    }
  connection_.upload_regions(all_.size());
}

bool Regions::holds(const Call& call, const void* data, std::size_t bytes, const char* which) const {
  if (bytes == 0) return true;
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  bool held = false;
  for (const auto& region : all_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(region->memory.data());
    if (at < begin || at - begin >= region->memory.size()) continue;
    const bool owned = region->owned != nullptr;
    if (region->token.expired()) {
      if (owned) refuse(call, fmt::format("the {} was freed: its GpuBuffer is gone", which));
      continue;
    }
    const bool all = bytes <= region->memory.size() - (at - begin);
    if (owned && !all)
      refuse(call, fmt::format("the {} of {} bytes reaches {} bytes beyond its GpuBuffer", which, bytes,
                               bytes - (region->memory.size() - (at - begin))));
    if (!owned && api_->allocation_id(data) != region->allocation)
      refuse(call, fmt::format("the {} was registered, then freed, and other memory is at its address now; "
                               "end the GpuRegistration before freeing memory",
                               which));
    held = held || all;
  }
  return held;
}

}  // namespace tutti::gpu
