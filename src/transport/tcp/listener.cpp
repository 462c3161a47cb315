#include "transport/tcp/listener.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "bootstrap/socket.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::transport::tcp {

namespace {

/// Connections in the middle of their handshake at most. The oldest gives way: a rank needs milliseconds, so
/// the oldest is a stranger.
constexpr std::size_t max_half_open = 256;
constexpr int out_of_memory_pause_ms = 100;

}  // namespace

TcpListener::TcpListener(const std::string& address, const bootstrap::Secret& secret)
    : address_(address), stop_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  generation_ = fork_generation();
  if (!stop_) throw_errno("eventfd");
  FileDescriptor socket = bootstrap::listen_at({address, 0});
  port_ = bootstrap::local_endpoint(socket.get()).port;
  bootstrap::Lobby lobby(std::move(socket), secret, max_half_open);
  thread_ = quiet_thread([this, lobby = std::move(lobby)]() mutable { serve(lobby); });
}

TcpListener::~TcpListener() {
  if (fork_generation() != generation_) {
    static_cast<void>(
        thread_.release());  // it runs in the parent only: neither to be joined nor detached here
    return;
  }
  ::eventfd_write(stop_.get(), 1);
  thread_->join();
}

std::shared_ptr<Inbox> TcpListener::open_inbox(std::uint64_t communicator) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(inboxes_, [](const auto& entry) { return entry.second.expired(); });
  auto inbox = inboxes_[communicator].lock();
  if (!inbox) inboxes_[communicator] = inbox = std::make_shared<Inbox>();
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

void TcpListener::serve(bootstrap::Lobby& lobby) {
  std::vector<pollfd> polled;
  const auto enter = [this](FileDescriptor connection, const bootstrap::Hello& hello) {
    file(hello.rank, hello.purpose, std::move(connection));
  };
  for (;;) {
    try {
      polled.assign(1, {stop_.get(), POLLIN, 0});
      lobby.add_to(polled);
      ::poll(polled.data(), polled.size(), lobby.poll_ms());
      if (polled[0].revents != 0) return;
      lobby.advance(std::span(polled).subspan(1), enter);
    } catch (const std::exception&) {
      // Out of memory. Ranks whose connection was dropped try again.
      pollfd stop{stop_.get(), POLLIN, 0};
      if (::poll(&stop, 1, out_of_memory_pause_ms) > 0) return;
    }
  }
}

}  // namespace tutti::transport::tcp
