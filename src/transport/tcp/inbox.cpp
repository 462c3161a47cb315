#include "transport/tcp/inbox.hpp"

#include <sys/eventfd.h>

#include "base/system_error.hpp"

namespace tutti::transport::tcp {

Inbox::Inbox() : event_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (!event_) throw_errno("eventfd");
}

void Inbox::file(Rank from, int channel, int stream, FileDescriptor connection) {
  PrivateDescriptor kept(std::move(connection));
  {
    const std::scoped_lock lock(mutex_);
    connections_.insert_or_assign({from, channel, stream}, std::move(kept));
    filed_.fetch_add(1, std::memory_order_release);
  }
  ::eventfd_write(event_.get(), 1);
}

PrivateDescriptor Inbox::take(Rank from, int channel, int stream) {
  const std::scoped_lock lock(mutex_);
  auto found = connections_.extract({from, channel, stream});
  return found ? std::move(found.mapped()) : PrivateDescriptor();
}

void Inbox::clear_event() const {
  eventfd_t ignored = 0;
  ::eventfd_read(event_.get(), &ignored);
}

}  // namespace tutti::transport::tcp
