#include "transport/tcp/inbox.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <span>

#include "base/system_error.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::transport::tcp {

namespace {

// A rank whose deadline passes before it hears the verdict closes its end, and may try again.
bool given_up(int socket) {
  std::byte byte{};
  const auto waiting = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return waiting == 0 || (waiting < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

Inbox::Inbox() : event_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (!event_) throw_errno("eventfd");
}

void Inbox::file(Rank from, int channel, int stream, FileDescriptor connection) {
  PrivateDescriptor kept(std::move(connection));
  {
    const std::scoped_lock lock(mutex_);
    const bool crossed = opened_here_.contains({from, channel, stream});
    // Before anybody else may write there; a socket this young has room for a byte.
    const auto verdict = crossed ? Verdict::crossed : Verdict::kept;
    static_cast<void>(bootstrap::send_some(kept.get(), std::as_bytes(std::span(&verdict, 1))));
    if (crossed) return;
    connections_.insert_or_assign({from, channel, stream}, std::move(kept));
    filed_.fetch_add(1, std::memory_order_release);
  }
  ::eventfd_write(event_.get(), 1);
}

PrivateDescriptor Inbox::open(Rank to, int channel, int stream) {
  const std::scoped_lock lock(mutex_);
  auto found = connections_.extract({to, channel, stream});
  if (found && !given_up(found.mapped().get())) return std::move(found.mapped());
  opened_here_.emplace(to, channel, stream);
  return {};
}

PrivateDescriptor Inbox::take(Rank from, int channel, int stream) {
  const std::scoped_lock lock(mutex_);
  auto found = connections_.extract({from, channel, stream});
  return found && !given_up(found.mapped().get()) ? std::move(found.mapped()) : PrivateDescriptor();
}

void Inbox::clear_event() const {
  eventfd_t ignored = 0;
  ::eventfd_read(event_.get(), &ignored);
}

}  // namespace tutti::transport::tcp
