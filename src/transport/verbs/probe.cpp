#include "transport/verbs/probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "bootstrap/frame.hpp"
#include "transport/verbs/rail.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr std::chrono::milliseconds patience{1500};
constexpr int probe_timeout = 16;  // 0.27 s a try
constexpr int probe_retries = 3;
constexpr std::size_t half = 64;

[[noreturn]] void refuse_gid(const ChosenPort& port, int index) {
  std::vector<int> there(port.port.gids.size());
  std::ranges::transform(port.port.gids, there.begin(), &Gid::index);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("RDMA device {} port {} has no GID {}, which TUTTI_VERBS_GID_INDEX asks for; {}",
                          port.device.name, port.port.number, index,
                          there.empty() ? "it has none: give its interface an address"
                                        : fmt::format("it has {}", fmt::join(there, ", "))));
}

/// Waits for the completions of the write and of its immediate.
std::string await(Rail& rail, std::uint32_t expected) {
  const Deadline deadline(patience);
  bool sent = false;
  bool received = false;
  while (!sent || !received) {
    ibv_wc completion{};
    if (rail.poll({&completion, 1}) == 0) {
      if (deadline.passed()) return "no message came through it";
      ::poll(nullptr, 0, 1);
      continue;
    }
    if (completion.status != IBV_WC_SUCCESS) return ::ibv_wc_status_str(completion.status);
    if (!Rail::is_receive(completion))
      sent = true;
    else if (rail.immediate_of(completion) == expected)
      received = true;
    else
      return "another message came through it";
  }
  return {};
}

}  // namespace

std::string prove_gid(Verbs& verbs, const ChosenPort& port, const ChosenGid& gid,
                      const VerbsOptions& options) {
  if (port.port.layer == LinkLayer::iwarp) return {};
  VerbsOptions quick = options;
  quick.timeout = probe_timeout;
  quick.retries = probe_retries;
  try {
    Rail rail(verbs, port, gid, quick, -1, 2);
    // A limited member of a partition does not reach itself: what it can use, its peers will tell.
    if (!share_partition(rail.partition(), rail.partition())) return {};
    const auto from = rail.make_pair(-1);
    const auto to = rail.make_pair(-1);
    to->connect(from->address());
    from->connect(to->address());
    const Block block(verbs, {rail.domain()}, 2 * half, Access::remote_write);
    std::memset(block.data(), 0x5a, half);
    Write write;
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.add({address_of(block.data()), half, block.region()->local_key(0)});
    write.to = address_of(block.data() + half);
    write.remote_key = block.region()->remote_key(0);
    write.immediate = from->address().first_packet;
    write.signalled = true;
    from->add(write);
    from->ring();
    auto wrong = await(rail, write.immediate);
    if (wrong.empty() && std::memcmp(block.data(), block.data() + half, half) != 0)
      wrong = "it changed the message";
    return wrong;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;  // so would every other one
    return bootstrap::to_fault(error).text;
  }
}

ChosenGid working_gid(Verbs& verbs, const ChosenPort& port, const VerbsOptions& options) {
  const auto candidates = gid_candidates(port.port, options.gid_index);
  if (candidates.empty() && options.gid_index >= 0) refuse_gid(port, options.gid_index);
  std::string tried;
  for (const auto& candidate : candidates) {
    const auto wrong = options.prove_gid ? prove_gid(verbs, port, candidate, options) : std::string();
    if (wrong.empty()) return candidate;
    tried += fmt::format("{}{} ({}): {}", tried.empty() ? "" : "; ", candidate.gid.index,
                         to_string(candidate.gid), wrong);
  }
  throw Error(ErrorCode::system,
              fmt::format("RDMA device {} port {}: {}", port.device.name, port.port.number,
                          candidates.empty() ? "it has no GID; give its interface an address"
                                             : "no GID works: " + tried));
}

}  // namespace tutti::transport::verbs
