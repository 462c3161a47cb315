#include "transport/tcp/fifo.hpp"

#include <fmt/format.h>

#include <tutti/error.hpp>

namespace tutti::transport::tcp {

void throw_lost(const FifoName& name, const std::string& cause) {
  throw Error(
      ErrorCode::peer_lost,
      fmt::format(
          "tcp channel {} to rank {}: {}; that rank died or destroyed its communicator; look at its own "
          "error first, then shrink or restart the group",
          name.channel, name.peer, cause),
      {name.peer});
}

}  // namespace tutti::transport::tcp
