#include "bootstrap/rendezvous.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>

#include "base/fork_guard.hpp"
#include "base/system_error.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/hmac.hpp"
#include "topology/host.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap {
namespace {

/// The bytes of an id; those that follow are zero.
struct Layout {
  std::array<char, 4> magic{'t', 'u', 't', '1'};
  std::uint16_t port = 0;
  std::uint8_t family = 0;  ///< 4 or 6
  std::uint8_t unused = 0;
  std::array<std::byte, 16> address{};
  Secret secret{};
  std::uint64_t loopback = 0;
};
static_assert(sizeof(Layout) == 48 && sizeof(Layout) <= UniqueId::size &&
              std::endian::native == std::endian::little);

struct Held {
  UniqueId id;
  PrivateDescriptor listener;
};

struct Holder {
  std::mutex mutex;
  std::list<Held> listeners;
};
PerProcess<Holder> holder;  // a child has no share in its parent's listeners

std::string address_of(std::string_view interface) {
  const char* variable = std::getenv("TUTTI_INTERFACE");
  if (interface.empty() && variable != nullptr) interface = variable;
  return interface.empty() ? topology::loopback_address() : topology::interface_address(interface);
}

/// Empty when this process holds none.
FileDescriptor take_held(const UniqueId& id) {
  auto& held = holder.get();
  const std::lock_guard lock(held.mutex);
  const auto at = std::ranges::find_if(held.listeners, [&](const Held& h) { return h.id == id; });
  if (at == held.listeners.end()) return {};
  auto listener = at->listener.release();
  held.listeners.erase(at);
  return listener;
}

/// Not "any address", which is each host's own, nor one whose scope means something on one host only.
bool names_a_host(const Layout& id) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(id.address.at(i)); };
  const bool link_local = id.family == 6 && at(0) == 0xfe && (at(1) & 0xc0U) == 0x80;
  return id.family != 0 && !link_local && id.address != decltype(id.address){};
}

std::string remedy_for(int why_not) {
  switch (why_not) {
    case EADDRINUSE:
      return "; or another process is rank 0, too: give every process its own rank"
             "; or another program has the port: set TUTTI_PORT, or another MASTER_PORT";
    case EADDRNOTAVAIL:
      return ", on the host that has this address"
             ": MASTER_ADDR, or the first of SLURM_STEP_NODELIST, must name rank 0's host";
    case EACCES:
      return "; or the port is not for every user: set TUTTI_PORT, or another MASTER_PORT, to one above 1023";
    default:
      return "";
  }
}

std::pair<UniqueId, FileDescriptor> listen_on(std::string_view interface) {
  Rendezvous rendezvous;
  auto listener = listen_at({address_of(interface), 0});
  rendezvous.endpoint = local_endpoint(listener.get());
  random_bytes(rendezvous.secret);
  if (topology::is_loopback(rendezvous.endpoint.address)) rendezvous.loopback = topology::this_loopback();
  return {make_id(rendezvous), std::move(listener)};
}

}  // namespace

Rendezvous read(const UniqueId& id) {
  Layout layout;
  const auto magic = layout.magic;
  std::memcpy(&layout, id.bytes.data(), sizeof layout);
  const auto rest = std::span(id.bytes).subspan(sizeof layout);
  if (layout.magic != magic || (layout.family != 4 && layout.family != 6) || layout.port == 0 ||
      layout.unused != 0 || std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{}; }))
    throw Error(ErrorCode::invalid_argument,
                "not a unique id: it was not made by UniqueId::create of this version of tutti, or was "
                "damaged on its way");
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(layout.family == 4 ? AF_INET : AF_INET6, layout.address.data(), text.data(), text.size());
  return {{text.data(), layout.port}, layout.secret, layout.loopback};
}

UniqueId make_id(const Rendezvous& rendezvous) {
  Layout layout;
  const auto& address = rendezvous.endpoint.address;
  if (::inet_pton(AF_INET, address.c_str(), layout.address.data()) == 1) layout.family = 4;
  if (layout.family == 0 && ::inet_pton(AF_INET6, address.c_str(), layout.address.data()) == 1)
    layout.family = 6;
  if (!names_a_host(layout))
    throw Error(ErrorCode::invalid_argument,
                "\"" + address +
                    "\" is no numeric address by which other hosts reach rank 0's (nor is 0.0.0.0, nor a "
                    "link-local one)");
  layout.port = rendezvous.endpoint.port;
  layout.secret = rendezvous.secret;
  layout.loopback = rendezvous.loopback;
  UniqueId id;
  std::memcpy(id.bytes.data(), &layout, sizeof layout);
  return id;
}

UniqueId reserve_id(std::string_view interface) { return listen_on(interface).first; }

FileDescriptor take_listener(const UniqueId& id, std::chrono::milliseconds patience) {
  if (auto held = take_held(id)) return held;
  const auto endpoint = read(id).endpoint;
  try {
    return listen_at(endpoint, patience);
  } catch (const Error& error) {
    const auto [code, ranks, text] = to_fault(error);
    const auto* refused = dynamic_cast<const SystemError*>(&error);
    throw Error(code,
                "rank 0 cannot be met: " + text + "; it must be in the process that made the unique id" +
                    remedy_for(refused == nullptr ? 0 : refused->number()),
                {0});
  }
}

bool holds_listener(const UniqueId& id) {
  auto& held = holder.get();
  const std::lock_guard lock(held.mutex);
  return std::ranges::any_of(held.listeners, [&](const Held& h) { return h.id == id; });
}

void drop_listener(const UniqueId& id) { take_held(id); }

}  // namespace tutti::bootstrap

namespace tutti {

UniqueId UniqueId::create(std::string_view interface) {
  auto [id, listener] = bootstrap::listen_on(interface);
  auto& held = bootstrap::holder.get();
  PrivateDescriptor owned(std::move(listener));
  const std::lock_guard lock(held.mutex);
  held.listeners.push_back({id, std::move(owned)});
  return id;
}

}  // namespace tutti
