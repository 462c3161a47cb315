#include "topology/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include "base/file_descriptor.hpp"
#include "base/long_call.hpp"
#include "base/system_error.hpp"

namespace tutti::topology {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// What the resolver says of a host.
struct Answer {
  int code = 0;  ///< of getaddrinfo, or 0
  AddressList addresses{nullptr, &::freeaddrinfo};
};

Answer look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), "9", &hints, &found);
  return {code, {code == 0 ? found : nullptr, &::freeaddrinfo}};
}

AddressList require(Answer answer, const std::string& host) {
  if (answer.code != 0)
    throw Error(ErrorCode::system, "no address for host \"" + host + "\": " + ::gai_strerror(answer.code));
  return std::move(answer.addresses);
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (int code = ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
      code != 0)
    throw Error(ErrorCode::system, std::string("getnameinfo: ") + ::gai_strerror(code));
  return text.data();
}

// The system tells no scope of the source of a route.
bool is_link_local(const std::string& address) {
  return address.find('%') != std::string::npos || address.starts_with("fe80:");
}

std::string listing(const std::vector<Interface>& all) {
  std::string text;
  for (const auto& one : all) {
    text += (text.empty() ? "" : ", ") + one.name + (one.up ? "" : " (down)");
    for (const auto& address : one.addresses) text += " " + address;
  }
  return text;
}

[[noreturn]] void refuse(std::string_view interface, const std::string& why,
                         const std::vector<Interface>& all) {
  throw Error(ErrorCode::invalid_argument, "network interface \"" + std::string(interface) + "\" " + why +
                                               "; this host has: " + listing(all) +
                                               "; name one of these (TUTTI_INTERFACE)");
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw_errno("listing network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<Interface> all;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      auto at = std::ranges::find(all, entry->ifa_name, &Interface::name);
      if (at == all.end()) at = all.insert(at, Interface{.name = entry->ifa_name, .addresses = {}});
      at->up = (entry->ifa_flags & IFF_UP) != 0;
      at->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      at->addresses.push_back(
          numeric(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
    }
  }
  return all;
}

std::string device_name(const std::string& interface) { return interface.substr(0, interface.find(':')); }

std::string device_of(std::string_view interface) {
  std::array<char, IF_NAMESIZE> name{};
  // The kernel takes an alias for its device, of which it may not be.
  const unsigned index =
      interface.find(':') == std::string_view::npos ? ::if_nametoindex(std::string(interface).c_str()) : 0;
  return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

std::string address_for_others(const Interface& interface) {
  const auto usable = std::ranges::find_if_not(interface.addresses, is_link_local);
  return usable == interface.addresses.end() ? "" : *usable;
}

std::string interface_address(std::string_view interface) {
  if (interface == "default") return default_route();
  const auto all = interfaces();
  for (const auto& one : all) {
    const bool named = one.name == interface;
    if (!named && std::ranges::find(one.addresses, interface) == one.addresses.end()) continue;
    if (!one.up) refuse(interface, "is down", all);
    std::string usable = named ? address_for_others(one) : std::string(interface);
    if (usable.empty() || is_link_local(usable))
      refuse(interface, "is link-local, which other hosts cannot use", all);
    return usable;
  }
  const std::string device = device_of(interface);
  if (device.empty()) refuse(interface, "does not exist", all);
  if (device != interface) return interface_address(device);
  // The kernel takes IPv6 addresses from what goes down, and a new network namespace's loopback has none yet.
  refuse(interface, "has no address; it may be down", all);
}

std::string route_to(const std::string& peer) {
  const auto target = require(look_up(peer, AI_NUMERICHOST), peer);
  const FileDescriptor socket(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno("asking for the route to " + peer);
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::connect(socket.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0)
    throw_errno("no route to " + peer);
  return numeric(reinterpret_cast<const sockaddr*>(&local), size);
}

std::string default_route() {
  // Addresses that belong to nobody (RFC 5737, RFC 3849): only the default route leads there.
  for (const char* const nobody : {"192.0.2.1", "2001:db8::1"}) {
    try {
      if (std::string address = route_to(nobody); !is_link_local(address)) return address;
    } catch (const Error&) {
      continue;
    }
  }
  throw Error(ErrorCode::system,
              "this host has no default route from an address that others can use, which would say how they "
              "reach it; name an interface: TUTTI_INTERFACE. It has: " +
                  listing(interfaces()));
}

std::string loopback_address() {
  for (const Interface& one : interfaces()) {
    if (!one.loopback || !one.up) continue;
    const auto found = std::ranges::find_if(one.addresses, is_loopback);
    if (found != one.addresses.end()) return *found;
  }
  return "127.0.0.1";  // whoever listens there says what is wrong with it
}

bool is_local(const std::string& address) {
  const auto all = interfaces();
  return is_loopback(address) || std::ranges::any_of(all, [&](const Interface& one) {
           return std::ranges::find(one.addresses, address) != one.addresses.end();
         });
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

double port_rate(const std::string& address) {
  for (const Interface& one : interfaces()) {
    if (std::ranges::find(one.addresses, address) == one.addresses.end()) continue;
    double megabits = 0;
    std::ifstream("/sys/class/net/" + device_name(one.name) + "/speed") >> megabits;
    constexpr double bytes = 1e6 / 8;
    return std::max(0.0, megabits) * bytes;
  }
  return 0;
}

std::vector<std::string> resolve(const std::string& host, const Deadline& deadline) {
  std::optional<Answer> answer = look_up(host, AI_NUMERICHOST);
  if (answer->code != 0) answer = result_by(deadline, [host] { return look_up(host, 0); });
  if (!answer)
    throw Error(ErrorCode::timeout, "no address for host \"" + host +
                                        "\" in time: the resolver does not answer (see /etc/resolv.conf); a "
                                        "numeric address needs none");
  const auto found = require(std::move(*answer), host);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next)
    addresses.push_back(numeric(one->ai_addr, one->ai_addrlen));
  return addresses;
}

}  // namespace tutti::topology
