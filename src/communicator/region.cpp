// Memory that peers on this host reach, which all ranks make together.
#include <exception>
#include <vector>

#include "communicator/impl.hpp"

namespace tutti::detail {

// A rank whose memory is refused keeps nobody waiting. Peers map the others' now rather than in their first
// call.
std::shared_ptr<Region> Impl::make_region(Within within, const std::function<std::size_t(Region&)>& make) {
  using transport::shm::MemoryOffer;
  ensure_usable();
  auto region = std::make_shared<Region>();
  std::vector<MemoryOffer> all(static_cast<std::size_t>(group.size));
  MemoryOffer mine;
  std::exception_ptr refused;
  const auto attempt = [&refused](const auto& part) {
    try {
      part();
    } catch (...) {
      if (!refused) refused = std::current_exception();
    }
  };
  attempt([&] {
    const std::size_t bytes = make(*region);
    if (region->data != nullptr) mine = shm->direct().offer(region->data, bytes);
  });
  run({.operation = Operation::all_gather,
       .in = &mine,
       .out = all.data(),
       .count = sizeof mine,
       .within = within});
  planner->enable_direct_memory();
  attempt([&] {
    for (const Rank r : shm->locals())
      shm->direct().expect(shm->local_of(r), all[static_cast<std::size_t>(r)]);
  });
  run({.operation = Operation::barrier, .within = within});  // else they may map what its owner has freed
  if (refused) std::rethrow_exception(refused);
  return region;
}

}  // namespace tutti::detail
