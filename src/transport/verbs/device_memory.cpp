#include "transport/verbs/device_memory.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <tutti/error.hpp>

#include "bootstrap/frame.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// `reg`: of one protection domain. Throws Error(unsupported) with what the device said.
template <class Register>
std::shared_ptr<const Region> region_by(Verbs& verbs, const Domains& domains, const DeviceMemory& memory,
                                        const Register& reg) {
  std::vector<MemoryRegion> handles;
  handles.reserve(domains.size());
  for (ibv_pd* domain : domains) {
    errno = 0;
    ibv_mr* const handle = reg(domain);
    if (handle == nullptr) throw Error(ErrorCode::unsupported, std::generic_category().message(errno));
    handles.emplace_back(handle, Destroy<ibv_mr, &Verbs::dereg_mr>{&verbs});
  }
  return std::make_shared<const Region>(memory.data, memory.bytes, std::move(handles));
}

std::shared_ptr<const Region> by_dma_buf(Verbs& verbs, const Domains& domains, const DeviceMemory& memory) {
  const FileDescriptor buffer = memory.dma_buf();  // regions keep it alive
  return region_by(verbs, domains, memory, [&](ibv_pd* domain) {
    return verbs.reg_dmabuf_mr(domain, 0, memory.bytes, address_of(memory.data), buffer.get(), access);
  });
}

}  // namespace

PlacedAddress unpack(const RegisteredAddress& address) {
  PlacedAddress placed;
  std::memcpy(&placed, address.data(), sizeof placed);
  return placed;
}

VerbsDeviceMemory::VerbsDeviceMemory(Verbs& verbs, const Domains& domains, const DeviceMemory& memory)
    : rails_(domains.size()) {
  std::string why;
  try {
    region_ = by_dma_buf(verbs, domains, memory);
    means_ = "dma-buf";
    return;
  } catch (const Error& error) {
    why = bootstrap::to_fault(error).text;
  }
  try {
    region_ = region_by(verbs, domains, memory, [&](ibv_pd* domain) {
      return verbs.reg_mr(domain, memory.data, memory.bytes, access);
    });
    means_ = "nvidia-peermem";
  } catch (const Error& error) {
    throw Error(ErrorCode::unsupported,
                fmt::format("RDMA devices do not reach device memory: by dma-buf: {}; by nvidia-peermem: {} "
                            "(modprobe nvidia-peermem, or NVIDIA's open kernel modules on Linux 5.12)",
                            why, bootstrap::to_fault(error).text));
  }
}

RegisteredAddress VerbsDeviceMemory::address() const {
  PlacedAddress placed{.begin = address_of(region_->begin())};
  assert(rails_ <= placed.keys.size());
  for (std::size_t rail = 0; rail < rails_; ++rail) placed.keys.at(rail) = region_->remote_key(rail);
  RegisteredAddress address{};
  std::memcpy(address.data(), &placed, sizeof placed);
  return address;
}

}  // namespace tutti::transport::verbs
