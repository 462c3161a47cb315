#include "transport/verbs/connection_manager.hpp"

#include <fmt/format.h>

#include <tutti/error.hpp>

#ifdef TUTTI_HAVE_RDMACM
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/fork_guard.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int resolve_within_ms = 2000;
constexpr int backlog = 128;

/// Destroys; in a child made by fork it does nothing, because the object is the parent's.
struct DestroyId {
  std::uint64_t generation = fork_generation();
  void operator()(rdma_cm_id* id) const {
    if (generation == fork_generation()) ::rdma_destroy_id(id);
  }
};
struct DestroyChannel {
  std::uint64_t generation = fork_generation();
  void operator()(rdma_event_channel* channel) const {
    if (generation == fork_generation()) ::rdma_destroy_event_channel(channel);
  }
};
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;
using Channel = std::unique_ptr<rdma_event_channel, DestroyChannel>;

/// A socket address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  SocketAddress(const Gid& ip, std::uint16_t port) {
    constexpr std::size_t mapped = 12;  // bytes before the IPv4 address in its IPv6 form
    if (ip.is_ipv4()) {
      auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
      v4->sin_family = AF_INET;
      v4->sin_port = htons(port);
      std::memcpy(&v4->sin_addr, ip.raw.data() + mapped, sizeof v4->sin_addr);
    } else {
      auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(port);
      std::memcpy(&v6->sin6_addr, ip.raw.data(), ip.raw.size());
    }
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

rdma_conn_param parameters(std::uint32_t queue_pair, const std::uint64_t* token) {
  rdma_conn_param p{};
  p.qp_num = queue_pair;
  p.private_data = token;
  p.private_data_len = token == nullptr ? 0 : sizeof *token;
  p.responder_resources = p.initiator_depth = 1;
  return p;
}

// Which the other side shows. No memory may be wanted for it: an id whose event is not acknowledged cannot be
// destroyed.
std::optional<std::uint64_t> token_in(const rdma_conn_param& shown) {
  std::uint64_t token = 0;
  if (shown.private_data == nullptr || shown.private_data_len < sizeof token) return std::nullopt;
  std::memcpy(&token, shown.private_data, sizeof token);
  return token;
}

}  // namespace

struct ConnectionManager::State {
  struct Connection {
    Id id;
    std::uint64_t token = 0;  ///< to show
  };
  Place place;
  Gid address;
  Channel channel;
  Id listener;
  std::map<std::uint64_t, std::uint32_t> expected;  ///< queue pair by token
  std::map<std::uint32_t, Connection> connections;  ///< by queue pair
  std::vector<Outcome> outcomes;

  void require(bool fine, const char* what) const {
    if (!fine) throw call_error(place, what, errno);
  }
  void take(rdma_cm_event_type type, int status, rdma_cm_id* id, std::optional<std::uint64_t> token);
  void accept(Id id, std::optional<std::uint64_t> token);
};

std::string ConnectionManager::why_unavailable() {
  const Channel channel(::rdma_create_event_channel());
  return channel ? ""
                 : "rdma_cm cannot be used (" + std::generic_category().message(errno) +
                       "): modprobe rdma_ucm; in containers --device=/dev/infiniband/rdma_cm";
}

ConnectionManager::ConnectionManager(Place place, const Gid& address) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.place = std::move(place);
  s.address = address;
  s.channel.reset(::rdma_create_event_channel());
  s.require(s.channel != nullptr, "opening rdma_cm (modprobe rdma_ucm)");
  ::fcntl(event_fd(), F_SETFL, ::fcntl(event_fd(), F_GETFL) | O_NONBLOCK);
  ::fcntl(event_fd(), F_SETFD, FD_CLOEXEC);
  rdma_cm_id* id = nullptr;
  s.require(::rdma_create_id(s.channel.get(), &id, nullptr, RDMA_PS_TCP) == 0, "making an rdma_cm listener");
  s.listener.reset(id);
  SocketAddress any_port(address, 0);
  s.require(::rdma_bind_addr(id, any_port.get()) == 0, "binding an rdma_cm listener");
  s.require(::rdma_listen(id, backlog) == 0, "listening with rdma_cm");
}

ConnectionManager::~ConnectionManager() = default;

std::uint16_t ConnectionManager::port() const { return ntohs(::rdma_get_src_port(state_->listener.get())); }

int ConnectionManager::event_fd() const { return state_->channel->fd; }

void ConnectionManager::expect(std::uint32_t queue_pair, std::uint64_t token) {
  state_->expected[token] = queue_pair;
}

void ConnectionManager::connect(std::uint32_t queue_pair, const Address& peer) {
  State& s = *state_;
  rdma_cm_id* id = nullptr;
  // The context of an id is the number of its queue pair.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(queue_pair));
  s.require(::rdma_create_id(s.channel.get(), &id, context, RDMA_PS_TCP) == 0, "making an rdma_cm id");
  s.connections[queue_pair] = {Id(id), peer.token};
  SocketAddress from(s.address, 0);
  SocketAddress to(Gid{peer.gid}, peer.port);
  s.require(::rdma_resolve_addr(id, from.get(), to.get(), resolve_within_ms) == 0,
            "resolving the peer's address");
}

void ConnectionManager::forget(std::uint32_t queue_pair) {
  std::erase_if(state_->expected, [&](const auto& one) { return one.second == queue_pair; });
  state_->connections.erase(queue_pair);
}

std::vector<ConnectionManager::Outcome> ConnectionManager::advance() {
  State& s = *state_;
  for (rdma_cm_event* event = nullptr; ::rdma_get_cm_event(s.channel.get(), &event) == 0;) {
    // Ids cannot be destroyed while one of their events is not acknowledged.
    const auto type = event->event;
    const int status = event->status;
    rdma_cm_id* id = event->id;
    const std::optional<std::uint64_t> token = token_in(event->param.conn);
    ::rdma_ack_cm_event(event);
    s.take(type, status, id, token);
  }
  return std::exchange(s.outcomes, {});
}

void ConnectionManager::State::take(rdma_cm_event_type type, int status, rdma_cm_id* id,
                                    std::optional<std::uint64_t> token) {
  if (type == RDMA_CM_EVENT_CONNECT_REQUEST) return accept(Id(id), token);
  const auto queue_pair = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(id->context));
  const auto found = connections.find(queue_pair);
  if (found == connections.end() || found->second.id.get() != id) return;  // the listener's, or forgotten
  int failed = 0;
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      failed = ::rdma_resolve_route(id, resolve_within_ms);
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      auto p = parameters(queue_pair, &found->second.token);
      failed = ::rdma_connect(id, &p);
      break;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      outcomes.push_back({queue_pair, ""});
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;  // the control connection says why
    default:
      outcomes.push_back({queue_pair, fmt::format("{} ({})", ::rdma_event_str(type),
                                                  std::generic_category().message(std::abs(status)))});
      return;
  }
  if (failed != 0)
    outcomes.push_back({queue_pair, fmt::format("after \"{}\": {}", ::rdma_event_str(type),
                                                std::generic_category().message(errno))});
}

// Strangers are refused: only who was told over the authenticated connection knows the token.
void ConnectionManager::State::accept(Id id, std::optional<std::uint64_t> token) {
  const auto found = expected.find(token.value_or(0));
  if (!token || found == expected.end()) {
    ::rdma_reject(id.get(), nullptr, 0);
    return;
  }
  const auto queue_pair = found->second;
  expected.erase(found);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): see connect
  id->context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(queue_pair));
  auto p = parameters(queue_pair, nullptr);
  if (::rdma_accept(id.get(), &p) != 0)
    outcomes.push_back({queue_pair, "accepting: " + std::generic_category().message(errno)});
  connections[queue_pair] = {std::move(id), 0};
}

}  // namespace tutti::transport::verbs

#else

namespace tutti::transport::verbs {

struct ConnectionManager::State {};

std::string ConnectionManager::why_unavailable() {
  return "this build of tutti has no librdmacm, by which iWARP connects";
}
ConnectionManager::ConnectionManager(Place /*place*/, const Gid& /*address*/) {
  throw Error(ErrorCode::unsupported, why_unavailable());
}
ConnectionManager::~ConnectionManager() = default;
std::uint16_t ConnectionManager::port() const { return 0; }
int ConnectionManager::event_fd() const { return -1; }
void ConnectionManager::expect(std::uint32_t /*queue_pair*/, std::uint64_t /*token*/) {}
void ConnectionManager::connect(std::uint32_t /*queue_pair*/, const Address& /*peer*/) {}
void ConnectionManager::forget(std::uint32_t /*queue_pair*/) {}
std::vector<ConnectionManager::Outcome> ConnectionManager::advance() { return {}; }

}  // namespace tutti::transport::verbs

#endif
