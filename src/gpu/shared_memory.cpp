#include "gpu/shared_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include <tutti/error.hpp>

#include "transport/all_gather.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::gpu {

namespace {

/// What a rank tells of its memory. Sent as bytes.
struct Offered {
  std::byte* data = nullptr;
  std::byte* begin = nullptr;  ///< of the allocation
  std::uint64_t bytes = 0, allocated = 0;
  bool has_descriptor = false, has_fabric = false, has_ipc = false;
  MemoryHandle fabric{}, ipc{};
};

Offered offer(const Export& exported, std::span<std::byte> mine) {
  Offered offered;
  offered.data = mine.data();
  offered.bytes = mine.size();
  offered.begin = exported.begin;
  offered.allocated = exported.bytes;
  offered.has_descriptor = static_cast<bool>(exported.descriptor);
  offered.has_fabric = exported.fabric.has_value();
  offered.has_ipc = exported.ipc.has_value();
  offered.fabric = exported.fabric.value_or(MemoryHandle{});
  offered.ipc = exported.ipc.value_or(MemoryHandle{});
  return offered;
}

bool opened_by_others(Nearness peer) { return peer == Nearness::host || peer == Nearness::domain; }

/// Opens the memory of one rank, and keeps what was tried.
class Opener {
 public:
  Opener(PeerMemory& memory, const Offered& offered) : memory_(memory), offered_(offered) {}
  OpenMemory open(Sharing how, const char* what, const std::shared_ptr<Api>& api,
                  const std::function<std::byte*()>& opens) {
    try {
      OpenMemory allocation(opens(), detail::Close{api});
      memory_.data = allocation.get() + (offered_.data - offered_.begin);
      memory_.how = how;
      return allocation;
    } catch (const Error& error) {
      memory_.why_not +=
          fmt::format("{}{} was not opened: {}", memory_.why_not.empty() ? "" : "; ", what, error.what());
      return {nullptr, detail::Close{api}};
    }
  }

 private:
  PeerMemory& memory_;
  const Offered& offered_;
};

}  // namespace

SharedMemory::SharedMemory(const std::shared_ptr<Api>& api, const Setting& setting,
                           std::span<const Nearness> peers, std::span<std::byte> mine) {
  Export exported;
  exported.begin = mine.data();
  std::string failure;
  if (std::ranges::any_of(peers, opened_by_others)) try {
      exported = api->export_memory(mine.data());
      if (mine.size() > exported.bytes - static_cast<std::size_t>(mine.data() - exported.begin))
        throw Error(ErrorCode::unsupported, "the memory is made of several allocations");
    } catch (const Error& error) {
      failure = error.what();
      exported = {};
    }
  const std::vector<Offered> offers = all_gather(setting.group, offer(exported, mine));
  const std::vector<std::string> failures = all_gather(setting.group, failure);

  std::vector<Rank> by_descriptor;
  for (Rank r = 0; r < setting.group.size; ++r)
    if (peers[static_cast<std::size_t>(r)] == Nearness::host && exported.descriptor &&
        offers[static_cast<std::size_t>(r)].has_descriptor)
      by_descriptor.push_back(r);
  std::vector<transport::shm::Passed> passed;
  if (std::ranges::any_of(offers, &Offered::has_descriptor))
    passed = transport::shm::exchange_descriptors(setting.group, exported.descriptor.get(), by_descriptor);

  for (std::size_t r = 0; r < offers.size(); ++r) {
    const Offered& offered = offers[r];
    PeerMemory& memory = all_.emplace_back();
    memory.theirs = offered.data;
    memory.bytes = offered.bytes;
    if (peers[r] == Nearness::process) memory.data = offered.data;
    if (!opened_by_others(peers[r])) continue;
    if (!failures[r].empty()) {
      memory.why_not = fmt::format("rank {} cannot share its memory: {}", r, failures[r]);
      continue;
    }
    Opener opener(memory, offered);
    const auto descriptor = std::ranges::find(passed, static_cast<Rank>(r), &transport::shm::Passed::from);
    if (descriptor != passed.end())
      open_.push_back(opener.open(Sharing::descriptor, "a file descriptor", api, [&] {
        return api->open_descriptor(descriptor->descriptor, offered.allocated);
      }));
    if (memory.data == nullptr && offered.has_fabric)
      open_.push_back(opener.open(Sharing::fabric, "a fabric handle", api, [&] {
        return api->open_handle(Sharing::fabric, offered.fabric, offered.allocated);
      }));
    if (memory.data == nullptr && offered.has_ipc && peers[r] == Nearness::host)
      open_.push_back(opener.open(Sharing::ipc, "a handle of CUDA IPC", api, [&] {
        return api->open_handle(Sharing::ipc, offered.ipc, offered.allocated);
      }));
    if (memory.data == nullptr && memory.why_not.empty())
      memory.why_not = fmt::format("rank {} offers no {}", r,
                                   peers[r] == Nearness::domain ? "fabric handle" : "handle that opens here");
  }
}

}  // namespace tutti::gpu
