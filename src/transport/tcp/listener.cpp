#include "transport/tcp/listener.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <vector>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "bootstrap/authenticate.hpp"
#include "bootstrap/socket.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::transport::tcp {

namespace {

/// Connections in the middle of their handshake at most. The oldest gives way: a rank needs milliseconds, so
/// the oldest is a stranger.
constexpr std::size_t max_half_open = 256;
constexpr std::chrono::seconds handshake_timeout(10);
/// How long to leave new connections waiting in the kernel when the process is out of descriptors or memory.
constexpr int exhausted_pause_ms = 100;

bool exhausted(int code) { return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM; }

}  // namespace

TcpListener::TcpListener(const std::string& address, const bootstrap::Secret& secret)
    : address_(address), secret_(secret), stop_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  generation_ = fork_generation();
  if (!stop_) throw_errno("eventfd");
  socket_ = PrivateDescriptor(bootstrap::listen_at({address, 0}));
  port_ = bootstrap::local_endpoint(socket_.get()).port;
  thread_ = quiet_thread([this] { serve(); });
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

void TcpListener::serve() {
  using bootstrap::Accepting;
  std::deque<Accepting> half_open;
  std::vector<pollfd> polled;
  bool pause = false;
  for (;;) {
    polled.assign({{stop_.get(), POLLIN, 0}, {pause ? -1 : socket_.get(), POLLIN, 0}});
    for (const auto& connection : half_open) polled.push_back({connection.fd(), POLLIN, 0});
    const int handshakes_ms = half_open.empty() ? -1 : half_open.front().deadline().poll_ms();
    ::poll(polled.data(), polled.size(), pause ? exhausted_pause_ms : handshakes_ms);
    if (polled[0].revents != 0) return;
    pause = false;
    if (polled[1].revents != 0) {
      FileDescriptor fresh = bootstrap::accept_from(socket_.get());
      pause = !fresh && exhausted(errno);
      if (half_open.size() == max_half_open) half_open.pop_front();
      if (fresh) half_open.emplace_back(std::move(fresh), secret_, handshake_timeout);
    }
    std::erase_if(half_open, [this](Accepting& connection) {
      const auto state = connection.advance();
      if (state == Accepting::State::authenticated)
        file(connection.hello().rank, connection.hello().purpose, connection.take());
      return state != Accepting::State::pending;
    });
  }
}

}  // namespace tutti::transport::tcp
