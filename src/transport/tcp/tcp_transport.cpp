#include "transport/tcp/tcp_transport.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include <tutti/error.hpp>

#include "base/timespec.hpp"
#include "bootstrap/frame.hpp"
#include "topology/host.hpp"
#include "topology/interface.hpp"
#include "transport/all_gather.hpp"
#include "transport/tcp/data_socket.hpp"
#include "transport/tcp/dial.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::transport::tcp {

namespace {

std::string interface_of(const std::string& address) {
  for (const auto& one : topology::interfaces())
    if (std::ranges::find(one.addresses, address) != one.addresses.end()) return one.name;
  return "?";
}

}  // namespace

TcpTransport::TcpTransport(Group group, std::shared_ptr<TcpListener> listener,
                           const bootstrap::Secret& secret, const TcpOptions& options)
    : group_(std::move(group)),
      listener_(std::move(listener)),
      secret_(secret),
      options_(options),
      streams_(static_cast<std::size_t>(group_.size) * channels),
      senders_(static_cast<std::size_t>(group_.size) * channels),
      receivers_(static_cast<std::size_t>(group_.size) * channels) {
  if (options_.streams < 1 || options_.streams > max_streams)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tcp takes 1 to {} streams a channel, not {}", max_streams, options_.streams));
  check_congestion(options_.congestion);
  inbox_ = listener_->open_inbox(group_.communicator);
  exchange_addresses();
}

TcpTransport::~TcpTransport() {
  if (fork_generation() != generation_) return;
  late_->stop();
  finish(senders_, Deadline(linger));
}

void TcpTransport::exchange_addresses() {
  struct Place {
    std::uint64_t port, loopback;  ///< the latter 0 where others reach it
  };
  const std::uint64_t here = topology::this_loopback();
  const Place mine{listener_->port(), topology::is_loopback(listener_->address()) ? here : 0};
  for (auto& [place, address] : all_gather(group_, mine, listener_->address()))
    peers_.push_back({std::move(address), static_cast<std::uint16_t>(place.port),
                      place.loopback != 0 && here != 0 && place.loopback != here});
  assert(peers_.size() == static_cast<std::size_t>(group_.size));
}

bool TcpTransport::reaches(Rank peer) const {
  if (peer == group_.rank) return false;
  try {
    static_cast<void>(topology::route_to(peers_.at(static_cast<std::size_t>(peer)).address));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string TcpTransport::congestion_to(Rank peer) const {
  for (int channel = 0; channel < channels; ++channel)
    if (const auto& streams = streams_[index(peer, channel)]; streams && streams->connected(0))
      return ", " + congestion_of(streams->fd(0));
  return "";
}

std::string TcpTransport::explain(Rank peer) const {
  if (peer == group_.rank) return "tcp does not lead from a rank to itself";
  const auto& to = peers_.at(static_cast<std::size_t>(peer)).address;
  try {
    const auto from = topology::route_to(to);
    return fmt::format("tcp via {} {} -> {}, {} stream{}{}", interface_of(from), from, to, options_.streams,
                       options_.streams == 1 ? "" : "s", congestion_to(peer));
  } catch (const Error& error) {
    return "tcp: " + bootstrap::to_fault(error).text;
  }
}

// A receiver that tries to read beyond the end of a connection throws.
bool TcpTransport::may_bring_from(Rank peer) const {
  for (int channel = 0; channel < channels; ++channel)
    if (const auto& receiver = receivers_[index(peer, channel)];
        receiver && receiver->waiting() && receiver->wait_fd() >= 0)
      return true;
  return false;
}

double TcpTransport::port_rate() const { return topology::port_rate(listener_->address()); }

std::size_t TcpTransport::index(Rank peer, int channel) const {
  assert(peer >= 0 && peer < group_.size && peer != group_.rank && channel >= 0 && channel < channels);
  return static_cast<std::size_t>(peer) * channels + static_cast<std::size_t>(channel);
}

std::shared_ptr<Streams>& TcpTransport::streams(Rank peer, int channel) {
  auto& streams = streams_[index(peer, channel)];
  if (!streams) streams = std::make_shared<Streams>(options_.streams, options_.congestion);
  return streams;
}

PrivateDescriptor TcpTransport::await_connection(Rank peer, int channel, int stream,
                                                 const Deadline& deadline) {
  const auto filed = [&] {
    return inbox_->take(group_.world[static_cast<std::size_t>(peer)], channel, stream);
  };
  for (;;) {
    inbox_->clear_event();
    if (auto socket = filed()) return socket;
    if (group_.check_members) group_.check_members();
    if (group_.gone && group_.gone(peer)) {
      if (auto socket = filed()) return socket;  // it connected, and sent something, before it went
      throw Error(ErrorCode::peer_lost,
                  fmt::format("rank {} was about to connect, and destroyed its communicator or died", peer),
                  {peer});
    }
    if (deadline.passed()) throw Error(ErrorCode::timeout, "the peer was about to connect, and did not");
    pollfd one{inbox_->event(), POLLIN, 0};
    ::poll(&one, 1, std::min(deadline.poll_ms(), 100));
  }
}

void TcpTransport::connect(Streams& streams, Rank peer, int channel) {
  const auto& contact = peers_[static_cast<std::size_t>(peer)];
  const Rank world = group_.world[static_cast<std::size_t>(peer)];
  const Deadline deadline(group_.timeout);
  try {
    if (contact.hidden)  // whoever calls first: that it may call this rank is chance
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("it listens at {}, which only its own host (or network namespace) reaches; give "
                      "it an interface that leads to others: Options::interface, TUTTI_INTERFACE",
                      contact.address));
    for (int s = 0; s < options_.streams; ++s) {
      const auto place = static_cast<std::size_t>(s);
      if (streams.connected(place)) continue;
      auto socket = group_.rank < peer ? inbox_->open(world, channel, s) : inbox_->take(world, channel, s);
      if (!socket) {
        const bootstrap::Hello hello{group_.world[static_cast<std::size_t>(group_.rank)],
                                     static_cast<std::uint32_t>(group_.size),
                                     Purpose{group_.communicator, channel, s}.pack()};
        socket = dial({contact.address, contact.port}, secret_, hello,
                      {deadline, [this, peer] { check_peer(group_, peer); }});
        if (!socket) socket = await_connection(peer, channel, s, deadline);
      }
      streams.connect(place, std::move(socket));
    }
  } catch (const Error& error) {
    throw bootstrap::while_connecting(error, fmt::format("tcp channel {} to rank {}: ", channel, peer),
                                      group_.rank, peer);
  }
}

Sender& TcpTransport::sender(Rank peer, int channel) {
  auto& sender = senders_[index(peer, channel)];
  if (!sender) {
    auto& shared = streams(peer, channel);
    connect(*shared, peer, channel);
    sender = std::make_unique<TcpSender>(FifoName{peer, channel}, shared, counters_, *late_);
  }
  return *sender;
}

Receiver& TcpTransport::receiver(Rank peer, int channel) {
  auto& receiver = receivers_[index(peer, channel)];
  if (!receiver)
    receiver =
        std::make_unique<TcpReceiver>(FifoName{peer, channel}, group_.world[static_cast<std::size_t>(peer)],
                                      streams(peer, channel), *inbox_, counters_);
  return *receiver;
}

void TcpTransport::progress() {
  if (counters_.backlogged == 0) return;
  for (auto& sender : senders_)
    if (sender) sender->progress();
}

std::uint64_t TcpTransport::taken() const {
  const auto locked = late_->lock();
  std::uint64_t all = 0;
  for (const auto& sender : senders_)
    if (sender) all += sender->taken();
  return all;
}

void TcpTransport::prepare_wait() {
  taken_before_wait_.reset();
  if (backlogged()) taken_before_wait_ = taken();
}

void TcpTransport::wait(std::chrono::microseconds longest) {
  waits_.clear();
  const timespec limit = timespec_of(longest);
  if (add_waits(waits_)) ::ppoll(waits_.data(), waits_.size(), &limit, nullptr);
  end_wait(waits_);
}

// A socket that has taken all is awaited no more, so the room that this made is to be used before.
bool TcpTransport::add_waits(std::vector<pollfd>& waits) {
  const auto before = std::exchange(taken_before_wait_, std::nullopt);
  if (before && *before != taken()) return false;
  for (const auto& sender : senders_)
    if (sender) sender->add_waits(waits);
  bool expects_connection = false;
  for (const auto& receiver : receivers_) {
    if (!receiver || !receiver->waiting()) continue;
    if (receiver->wait_fd() >= 0)
      waits.push_back({receiver->wait_fd(), POLLIN, 0});
    else
      expects_connection = true;
  }
  if (expects_connection) waits.push_back({inbox_->event(), POLLIN, 0});
  return true;
}

void TcpTransport::end_wait(std::span<const pollfd> waits) {
  if (!waits.empty() && waits.back().fd == inbox_->event() && waits.back().revents != 0)
    inbox_->clear_event();
}

}  // namespace tutti::transport::tcp
