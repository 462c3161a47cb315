#include "transport/tcp/window_server.hpp"

#include <exception>

#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

WindowServer::WindowServer(Served served, Rank rank, std::vector<Rank> world, std::shared_ptr<Inbox> inbox)
    : served_(std::move(served)), rank_(rank), world_(std::move(world)), inbox_(std::move(inbox)) {
  thread_.start([this] { serve(); });
}

void WindowServer::accept() {
  inbox_->clear_event();
  for (Rank r = 0; r < static_cast<Rank>(world_.size()); ++r) {
    if (r == rank_) continue;
    auto socket = inbox_->take(world_[static_cast<std::size_t>(r)], 0, 0);
    if (!socket) continue;
    try {
      carry_data(socket.get(), served_.congestion);
      connections_.emplace_back(r, std::move(socket), served_);
    } catch (const std::exception&) {
      // Out of memory: this peer finds its connection closed, the others are taken.
    }
  }
}

// Out of memory one peer loses the window, the others go on.
bool WindowServer::advance(ServedConnection& one) {
  try {
    return one.advance();
  } catch (const std::exception&) {
    return false;
  }
}

void WindowServer::serve() {
  polled_.assign({thread_.stop(), {inbox_->event(), POLLIN, 0}});
  bool more = false;
  for (const auto& connection : connections_) {
    polled_.push_back({connection.fd(), connection.events(), 0});
    more = more || connection.events() == 0;
  }
  ::poll(polled_.data(), polled_.size(), more ? 0 : -1);
  std::size_t index = 2;
  for (auto it = connections_.begin(); it != connections_.end(); ++index) {
    const bool due = polled_[index].revents != 0 || it->events() == 0;
    it = due && !advance(*it) ? connections_.erase(it) : std::next(it);
  }
  if (polled_[1].revents != 0) accept();
}

}  // namespace tutti::transport::tcp
