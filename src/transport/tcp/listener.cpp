#include "transport/tcp/listener.hpp"

#include <poll.h>

#include <span>
#include <utility>
#include <vector>

#include "bootstrap/lobby.hpp"
#include "bootstrap/socket.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::transport::tcp {

namespace {

/// Connections in the middle of their handshake at most. The oldest gives way: a rank needs milliseconds, so
/// the oldest is a stranger.
constexpr std::size_t max_half_open = 256;

}  // namespace

TcpListener::TcpListener(const std::string& address, const bootstrap::Secret& secret) : address_(address) {
  FileDescriptor socket = bootstrap::listen_at({address, 0});
  port_ = bootstrap::local_endpoint(socket.get()).port;
  bootstrap::Lobby lobby(std::move(socket), secret, max_half_open);
  thread_.start([this, lobby = std::move(lobby), polled = std::vector<pollfd>()]() mutable {
    polled.assign(1, thread_.stop());
    lobby.add_to(polled);
    ::poll(polled.data(), polled.size(), lobby.poll_ms());
    // Ranks whose connection is dropped by an exception try again.
    lobby.advance(std::span(polled).subspan(1),
                  [this](FileDescriptor connection, const bootstrap::Hello& hello) {
                    file(hello.rank, hello.purpose, std::move(connection));
                  });
  });
}

std::shared_ptr<Inbox> TcpListener::open_inbox(std::uint64_t communicator) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(inboxes_, [](const auto& entry) { return entry.second.expired(); });
  auto inbox = inboxes_[communicator].lock();
  if (!inbox) inboxes_[communicator] = inbox = std::shared_ptr<Inbox>(new Inbox, DeleteUnlessForked{});
  return inbox;
}

void TcpListener::file(int world_rank, std::uint64_t purpose, FileDescriptor connection) {
  const auto what = Purpose::unpack(purpose);
  const std::scoped_lock lock(mutex_);
  const auto found = inboxes_.find(what.communicator);
  if (found == inboxes_.end()) return;
  if (const auto inbox = found->second.lock())
    inbox->file(world_rank, what.channel, what.stream, std::move(connection));
}

}  // namespace tutti::transport::tcp
