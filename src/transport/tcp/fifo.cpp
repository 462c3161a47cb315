#include "transport/tcp/fifo.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

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

void throw_failed(const FifoName& name, int why) {
  const std::string cause = std::generic_category().message(why);
  if (why != EFAULT) throw_lost(name, cause);
  throw Error(ErrorCode::system,
              fmt::format("tcp channel {} to rank {}: {}; this rank's buffer is shorter than its call says, "
                          "or no longer mapped, or read-only, or of a file that has become shorter",
                          name.channel, name.peer, cause));
}

}  // namespace tutti::transport::tcp
