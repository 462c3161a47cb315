#include "transport/transport.hpp"

#include <cassert>
#include <string>

#include <tutti/error.hpp>

#include "transport/remote_memory.hpp"

namespace tutti::transport {

void check_peer(const Group& group, Rank peer) {
  if (group.check_members) group.check_members();
  if (group.gone && group.gone(peer))
    throw Error(ErrorCode::peer_lost, "rank " + std::to_string(peer) + " destroyed its communicator or died",
                {peer});
}

bool Sender::try_place(const Placement& /*placement*/, const std::byte* /*data*/, std::size_t /*bytes*/,
                       Tag /*tag*/) {
  assert(false && "nothing was registered");
  return false;
}

std::unique_ptr<RemoteAccess> Transport::expose(const Exposure& /*exposure*/) { return nullptr; }

std::unique_ptr<RegisteredDeviceMemory> Transport::register_device_memory(const DeviceMemory& /*memory*/) {
  throw Error(ErrorCode::unsupported, std::string(name()) + " has no adapter that reaches device memory");
}

}  // namespace tutti::transport
