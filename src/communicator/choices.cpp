// Which algorithms the calls of a communicator take: rank 0 decides when it is made, with bounded effort, so
// that no call has to.
#include "communicator/impl.hpp"
#include "transport/all_gather.hpp"

namespace tutti::detail {

tuning::Scene Impl::scene(int node_size) const {
  if (all_shared) return {.transport = "shm", .ranks = group.size, .cpus = shm->cpus()};
  bool by_verbs = verbs != nullptr;
  for (Rank r = 0; r < group.size; ++r)
    by_verbs = by_verbs && (r == group.rank || (!network_only && shm->reaches(r)) || verbs->reaches(r));
  tuning::Scene scene{.transport = by_verbs ? "verbs" : "tcp", .ranks = group.size, .cpus = shm->cpus()};
  if (!network_only && node_size > 0) scene.host_size = node_size;
  // On one host, by force: what memory carries is in the constants.
  const transport::Transport* network = by_verbs ? verbs.get() : tcp.get();
  if (network != nullptr && shm->host_size() != group.size) scene.port = network->port_rate();
  return scene;
}

std::shared_ptr<const tuning::Choices> Impl::agree_on_choices(const tuning::Tuning& tuning,
                                                              const tuning::Scene& mine) const {
  if (group.size == 1) return tuning.choices(mine);
  const std::string text = group.rank == 0 ? tuning::to_text(*tuning.choices(mine)) : "";
  return std::make_shared<const tuning::Choices>(tuning::choices_from(all_gather(group, text).at(0)));
}

}  // namespace tutti::detail
