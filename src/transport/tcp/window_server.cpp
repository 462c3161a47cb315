#include "transport/tcp/window_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

WindowServer::WindowServer(Served served, Rank rank, std::vector<Rank> world, std::shared_ptr<Inbox> inbox)
    : served_(std::move(served)),
      rank_(rank),
      world_(std::move(world)),
      inbox_(std::move(inbox)),
      stop_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (!stop_) throw_errno("eventfd");
  thread_ = quiet_thread([this] { serve(); });
}

WindowServer::~WindowServer() {
  if (fork_generation() != generation_) {
    static_cast<void>(thread_.release());  // it runs in the parent only
    return;
  }
  ::eventfd_write(stop_.get(), 1);
  thread_->join();
}

void WindowServer::accept() {
  inbox_->clear_event();
  for (Rank r = 0; r < static_cast<Rank>(world_.size()); ++r) {
    if (r == rank_) continue;
    auto socket = inbox_->take(world_[static_cast<std::size_t>(r)], 0, 0);
    if (!socket) continue;
    carry_data(socket.get(), served_.congestion);
    connections_.emplace_back(r, std::move(socket), served_);
  }
}

void WindowServer::serve() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{stop_.get(), POLLIN, 0}, {inbox_->event(), POLLIN, 0}});
    bool more = false;
    for (const auto& connection : connections_) {
      polled.push_back({connection.fd(), connection.events(), 0});
      more = more || connection.events() == 0;
    }
    ::poll(polled.data(), polled.size(), more ? 0 : -1);
    if (polled[0].revents != 0) return;
    std::size_t index = 2;
    for (auto it = connections_.begin(); it != connections_.end(); ++index) {
      const bool due = polled[index].revents != 0 || it->events() == 0;
      it = due && !it->advance() ? connections_.erase(it) : std::next(it);
    }
    if (polled[1].revents != 0) accept();
  }
}

}  // namespace tutti::transport::tcp
