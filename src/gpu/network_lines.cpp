#include "gpu/network_lines.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include <tutti/error.hpp>

#include "base/mappings.hpp"
#include "bootstrap/frame.hpp"
#include "gpu/slot_proof.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"

namespace tutti::gpu {

namespace {

std::byte* next_page(std::byte* memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (whole_pages(at) - at);
}

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

}  // namespace

NetworkLines::NetworkLines(std::shared_ptr<Api> api, const Setting& setting, const device::Mailbox& layout,
                           std::vector<Line> lines)
    : api_(std::move(api)),
      setting_(setting),
      layout_(layout),
      by_host_(std::move(lines)),
      lines_(by_host_),
      proposals_(index(setting.group.size)),
      memory_(lines_.size()),
      network_(setting.make_network()),
      registered_(lines_.size()) {
  transport::do_together(setting.group, [this] {
    propose();
    register_all();
  });
  do agree_on_all();
  while (some_direct_ && !prove());
}

void NetworkLines::propose() {
  const bool wanted = setting_.options.gpu_direct;
  if (wanted && !lines_.empty()) writes_ = api_->network_writes();
  for (const Line& line : lines_)
    proposals_[index(line.peer)] = !wanted ? Proposal{Way::network, "GpuOptions::gpu_direct"}
                                   : writes_ == NetworkWrites::never
                                       ? Proposal{Way::network, "the device may not see what adapters write"}
                                       : Proposal{Way::direct};
}

// Slots of one direction.
std::size_t NetworkLines::bytes_of_slots() const { return whole_pages(layout_.bytes_of_slots()); }

// What one pair has registered lets that peer write there, and nobody anywhere else.
void NetworkLines::use_device_memory(std::size_t i) {
  const std::size_t bytes = 2 * bytes_of_slots();
  memory_[i] = allocate(api_, bytes + page_bytes());
  std::byte* const begin = next_page(memory_[i].get());
  Line& line = lines_[i];
  registered_[i] = network_->to(line.peer).register_device_memory(
      {begin, bytes, [this, begin, bytes] { return api_->export_dma_buf(begin, bytes); }});
  line.out_slots = begin;
  line.in_slots = begin + bytes_of_slots();
  line.direct = registered_[i].get();
  line.their_slots = bytes_of_slots();
}

void NetworkLines::use_host_memory(std::size_t i) {
  lines_[i] = by_host_[i];
  registered_[i].reset();
  memory_[i].reset();
}

void NetworkLines::register_all() {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    Proposal& proposal = proposals_[index(lines_[i].peer)];
    if (proposal.way != Way::direct) continue;
    try {
      use_device_memory(i);
    } catch (const Error& error) {
      use_host_memory(i);
      proposal = {Way::network, bootstrap::to_fault(error).text};
    }
  }
}

void NetworkLines::agree_on_all() {
  const Agreement agreement = agree(setting_, proposals_);
  some_direct_ = agreement.some_direct;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Proposal& agreed = proposals_[index(lines_[i].peer)] = agreement.ways[index(lines_[i].peer)];
    if (agreed.way != Way::direct) use_host_memory(i);
  }
  if (!some_direct_) return;
  struct Addresses {
    transport::RegisteredAddress by_rank[device::max_ranks];
  } mine{};
  for (const Line& line : lines_)
    if (line.direct != nullptr) mine.by_rank[line.peer] = line.direct->address();
  const std::vector<Addresses> all = all_gather(setting_.group, mine);
  for (Line& line : lines_) line.theirs = all[index(line.peer)].by_rank[setting_.group.rank];
}

// True when all that was tried is right. Otherwise there is less to be tried.
bool NetworkLines::prove() {
  const SlotProof proof = prove_slots(api_, setting_, *network_, lines_, flushes());
  for (const auto& [peer, why] : proof.failed) proposals_[index(peer)] = {Way::network, why};
  struct Verdict {
    bool right = true, broken = false;
  };
  Verdict together;
  for (const Verdict& one : all_gather(setting_.group, Verdict{proof.failed.empty(), proof.network_broken})) {
    together.right = together.right && one.right;
    together.broken = together.broken || one.broken;
  }
  if (together.broken) make_network_anew();
  return together.right;
}

void NetworkLines::make_network_anew() {
  for (auto& registered : registered_) registered.reset();
  network_.reset();
  for (std::size_t i = 0; i < lines_.size(); ++i) use_host_memory(i);
  network_ = setting_.make_network();
  register_all();
}

std::string NetworkLines::description() const {
  std::string text;
  for (std::size_t i = 0; i < lines_.size(); ++i)
    text += registered_[i] != nullptr
                ? fmt::format("\n  rank {} over {}: from and into device memory ({}{})", lines_[i].peer,
                              network_->to(lines_[i].peer).name(), registered_[i]->means(),
                              flushes() ? ", flushed" : "")
                : fmt::format("\n  rank {} over {}: through page-locked host memory ({})", lines_[i].peer,
                              network_->to(lines_[i].peer).name(), proposals_[index(lines_[i].peer)].why);
  return text;
}

void NetworkLines::abandon() noexcept {
  for (DeviceMemory& memory : memory_) static_cast<void>(memory.release());
}

}  // namespace tutti::gpu
