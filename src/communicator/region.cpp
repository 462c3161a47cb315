// Memory that peers on this host reach, which all ranks make together.
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "communicator/check.hpp"
#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

using transport::shm::MemoryOffer;

// Page tables of more would weigh, and such memory may be meant to stay empty, mostly.
constexpr std::uint64_t most_mapped = std::uint64_t{1} << 30U;

}  // namespace

// What is mapped early is mapped by the first call else, a page fault for every page. Whether any is, all
// ranks of a host say alike.
bool Impl::map_regions(const std::vector<MemoryOffer>& all) noexcept {
  std::uint64_t bytes = 0;
  for (const Rank r : shm->locals()) bytes += all[static_cast<std::size_t>(r)].region_bytes;
  if (network_only || bytes == 0 || bytes > most_mapped) return false;
  try {
    for (const Rank r : shm->locals())
      shm->direct().fault_in(shm->local_of(r), all[static_cast<std::size_t>(r)]);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a call that needs it says so
  }
  return true;
}

// Returns when all ranks of this host have called it. Nobody counts it among the calls. By way of one of
// them: memory of channels between all pairs would stay in use.
void Impl::meet_on_host(Within within) {
  const std::vector<Rank>& locals = shm->locals();
  const Rank first = locals.front();
  const auto talk = [&](std::span<const Rank> ranks, std::initializer_list<Operation> operations) {
    std::vector<Call> calls;
    calls.reserve(operations.size() * ranks.size());
    for (const Rank r : ranks)
      for (const Operation operation : operations)
        calls.push_back({.operation = operation, .root = r, .within = within});
    const auto work = start(calls);
    wait(*work, std::nullopt);
  };
  if (group.rank != first) return talk({&first, 1}, {Operation::send, Operation::receive});
  const auto others = std::span(locals).subspan(1);
  talk(others, {Operation::receive});
  talk(others, {Operation::send});
}

// A rank whose memory is refused keeps nobody waiting. Nobody is waited for before: new memory nobody knows.
// With a call that had the other, and that this rank is through with, its peers are through, too; of one that
// is still under way they only read it, and find the same bytes in either pages.
std::shared_ptr<Region> Impl::make_region(Within within, const std::function<std::size_t(Region&)>& make) {
  ensure_usable();
  std::exception_ptr refused;
  auto made = with_others([&] {
    auto region = std::make_shared<Region>();
    std::vector<MemoryOffer> all(static_cast<std::size_t>(group.size));
    MemoryOffer mine;
    try {
      std::erase_if(regions, [](const auto& one) { return one.expired(); });
      regions.push_back(region);
      region->bytes = make(*region);
      if (region->data != nullptr) mine = shm->direct().offer(region->data, region->bytes);
      if (mine.region_bytes <= most_mapped) shm->direct().fault_in(shm->local_of(group.rank), mine);
    } catch (...) {
      refused = std::current_exception();
    }
    run({.operation = Operation::all_gather,
         .in = &mine,
         .out = all.data(),
         .count = sizeof mine,
         .within = within});
    planner->enable_direct_memory();
    const bool mapped = map_regions(all);
    // What its owner gives back meanwhile would be filled with pages anew, which are nobody's.
    if (mapped && !shm->direct().same_process()) meet_on_host(within);
    return region;
  });
  if (refused) std::rethrow_exception(refused);
  return made;
}

std::vector<std::shared_ptr<void>> Impl::regions_of(std::span<const std::byte> memory) const {
  std::vector<std::shared_ptr<void>> found;
  for (const auto& one : regions)
    if (auto region = one.lock(); region != nullptr && region->data != nullptr &&
                                  overlap(region->data, region->bytes, memory.data(), memory.size()))
      found.push_back(std::move(region));
  return found;
}

}  // namespace tutti::detail
