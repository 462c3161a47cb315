#include "transport/transport.hpp"

#include "transport/remote_memory.hpp"

namespace tutti::transport {

std::unique_ptr<RemoteAccess> Transport::expose(const Exposure& /*exposure*/) { return nullptr; }

}  // namespace tutti::transport
