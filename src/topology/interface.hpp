/// \file
/// The network interfaces of this host and the addresses by which others reach it. Addresses are numeric
/// text, IPv4 or IPv6.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"

namespace tutti::topology {

struct Interface {
  std::string name;
  std::vector<std::string>
      addresses;  ///< IPv4 first; link-local IPv6 ones carry their scope ("fe80::1%eth0")
  bool up = false;
  bool loopback = false;
};

/// One that other hosts can use: the IPv4 one, else a global IPv6 one; empty: there is none.
std::string address_for_others(const Interface& interface);

/// The name by which the kernel's files and ip(8) know an interface: of an alias, "eth0:1", that of its
/// device.
std::string device_name(const std::string& interface);

/// What the kernel calls an interface that may be named by another of its names (ip link property add
/// altname); empty: there is none.
std::string device_of(std::string_view interface);

/// All interfaces that have an address, in the system's order. Throws Error(system).
std::vector<Interface> interfaces();

/// The address of an interface that other hosts can use: its IPv4 one, else a global IPv6 one. `interface`
/// may also be another name of it (altname), such an address itself, or "default": that of the default route.
/// Throws Error(invalid_argument), which lists the interfaces, for one that does not exist, is down, or has
/// no address but a link-local IPv6 one: its scope means something on this host only.
std::string interface_address(std::string_view interface);

/// The local address from which packets to `peer` (numeric) leave. Sends nothing. Throws Error(system)
/// without a route.
std::string route_to(const std::string& peer);

/// The local address of the default route. Throws Error(system), which lists the interfaces, without one that
/// other hosts can use.
std::string default_route();

/// The address by which processes of this host meet, whatever networks it has: 127.0.0.1, or ::1 on a host
/// whose loopback interface has no IPv4. Throws Error(system).
std::string loopback_address();

/// Whether `address` (numeric) is one of this host's.
bool is_local(const std::string& address);
bool is_loopback(const std::string& address);

/// Bytes/s of the interface with that address, as its driver says (/sys/class/net/*/speed); 0: it does not.
double port_rate(const std::string& address);

/// Numeric addresses of a host name in the resolver's order; a numeric address yields itself. A resolver that
/// takes longer goes on in a thread of its own. Throws Error(system) and Error(timeout), which name the host.
std::vector<std::string> resolve(const std::string& host, const Deadline& deadline);

}  // namespace tutti::topology
