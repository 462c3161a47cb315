#include "gpu/slot_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "bootstrap/frame.hpp"
#include "gpu/carrier.hpp"
#include "gpu/device/proof.hpp"
#include "gpu/resources.hpp"
#include "transport/fail_together.hpp"

namespace tutti::gpu {

namespace {

using namespace std::chrono_literals;

// An adapter that cannot reach device memory may never say so. Others wait for this one afterwards, until
// the deadline.
constexpr std::chrono::milliseconds patience = 3s;
constexpr transport::Tag tag = 0x6770'7570;
// Every carrier moves a part of the pattern.
constexpr std::size_t part_bytes = device::proof_bytes / direct_carriers;

/// A part's way to one peer, and that of the peer's.
class Exchange {
 public:
  Exchange(Network& network, const Line& line, int carrier)
      : line_(line),
        begin_(part_bytes * static_cast<std::size_t>(carrier)),
        sender_(network.to(line.peer).sender(line.peer, carrier)),
        receiver_(network.to(line.peer).receiver(line.peer, carrier)) {}

  /// True when both are through. Throws Error, Mismatch: of this pair alone, as `Transport::progress` would
  /// not.
  bool advance() {
    const transport::Placement placement{line_.direct, line_.out_slots + begin_, part_bytes, line_.theirs,
                                         line_.their_slots + begin_};
    sent_ = sent_ || sender_.try_place(placement, nullptr, 0, tag);
    received_ = received_ || receiver_.try_receive(nullptr, 0, tag);
    flushed_ = flushed_ || (sent_ && sender_.flushed());
    return received_ && flushed_;
  }

 private:
  const Line& line_;
  const std::size_t begin_;
  transport::Sender& sender_;
  transport::Receiver& receiver_;
  bool sent_ = false, flushed_ = false, received_ = false;
};

// All patterns, as far as the network knows.
void exchange(Network& network, const Setting& setting, const std::vector<Line>& lines,
              std::map<Rank, std::string>& failed) {
  std::multimap<Rank, std::unique_ptr<Exchange>> under_way;
  const auto attempt = [&](Rank peer, const auto& step) {
    try {
      return step();
    } catch (const Error& error) {
      failed[peer] = bootstrap::to_fault(error).text;
    } catch (const transport::Mismatch&) {
      failed[peer] = fmt::format("rank {} sent something else", peer);
    }
    return true;
  };
  for (const Line& line : lines)
    for (int carrier = 0; line.direct != nullptr && carrier < direct_carriers; ++carrier)
      attempt(line.peer, [&] {
        under_way.emplace(line.peer, std::make_unique<Exchange>(network, line, carrier));
        return true;
      });
  const Deadline deadline(std::min(setting.group.timeout / 2, patience));
  while (!under_way.empty() && !deadline.passed()) {
    std::erase_if(under_way,
                  [&](const auto& one) { return attempt(one.first, [&] { return one.second->advance(); }); });
    if (setting.group.check_members) setting.group.check_members();
    std::this_thread::yield();
  }
  for (const auto& [peer, _] : under_way) failed[peer] = "the pattern did not arrive in time";
}

/// Knows no way but the slots of these lines.
device::Membership members_of(const Setting& setting, const std::vector<Line>& lines) {
  device::Membership group;
  group.rank = setting.group.rank;
  group.size = setting.group.size;
  for (const Line& line : lines) {
    if (line.direct == nullptr) continue;
    group.out_slots[line.peer] = line.out_slots;
    group.in_slots[line.peer] = line.in_slots;
  }
  return group;
}

}  // namespace

SlotProof prove_slots(const std::shared_ptr<Api>& api, const Setting& setting, Network& network,
                      const std::vector<Line>& lines, bool flushes) {
  const device::Membership group = members_of(setting, lines);
  DeviceMemory membership;
  PinnedMemory wrong;
  std::optional<TemporaryStream> stream;
  const auto run = [&](device::Proof phase) {
    api->launch_proof(reinterpret_cast<const device::Membership*>(membership.get()), phase,
                      reinterpret_cast<std::uint32_t*>(wrong.get()), stream->get());
    api->synchronize(stream->get());
  };
  transport::do_together(setting.group, [&] {
    membership = allocate(api, sizeof group);
    api->upload(membership.get(), reinterpret_cast<const std::byte*>(&group), sizeof group);
    wrong = allocate_pinned(api, sizeof(std::uint32_t) * device::max_ranks);
    stream.emplace(*api);
    run(device::Proof::write_slots);
  });
  SlotProof proof;
  exchange(network, setting, lines, proof.failed);
  proof.network_broken = !proof.failed.empty();
  transport::do_together(setting.group, [&] {
    if (flushes) api->flush_network_writes();
    run(device::Proof::check_slots);
  });
  const auto* const words = reinterpret_cast<const std::uint32_t*>(wrong.get());
  for (const Line& line : lines)
    if (line.direct != nullptr && words[line.peer] != 0)
      proof.failed.try_emplace(line.peer,
                               fmt::format("what rank {} wrote into its device memory did not arrive in that "
                                           "of rank {}: access control services or an IOMMU between GPU and "
                                           "adapter do that; turn them off in the BIOS",
                                           line.peer, setting.group.rank));
  return proof;
}

}  // namespace tutti::gpu
