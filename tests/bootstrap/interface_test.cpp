// The interfaces of the machine the test runs on; all have at least a loopback.
#include "topology/interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <tutti/error.hpp>

#include "bootstrap/own_network.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"
#include "thrown.hpp"

namespace tutti::topology {
namespace {

using bootstrap::test::enter_bare_network;
using bootstrap::test::enter_own_network;
using bootstrap::test::run_ip;
using testing::Contains;
using testing::HasSubstr;

const Interface& loopback(const std::vector<Interface>& all) {
  const auto found = std::ranges::find_if(all, &Interface::loopback);
  if (found == all.end()) throw Error(ErrorCode::system, "no loopback interface");
  return *found;
}

TEST(Interfaces, TheLoopbackIsListed) {
  const auto all = interfaces();
  const auto& lo = loopback(all);
  EXPECT_TRUE(lo.up);
  EXPECT_THAT(lo.addresses, Contains("127.0.0.1"));
  EXPECT_EQ(interface_address(lo.name), "127.0.0.1");
}

TEST(Interfaces, TheSystemKnowsAnAliasByItsDevice) {
  EXPECT_EQ(device_name("eth0:1"), "eth0");
  EXPECT_EQ(device_name("eth0"), "eth0");
}

TEST(Interfaces, AnAddressOfThisHostNamesItself) {
  EXPECT_EQ(interface_address("127.0.0.1"), "127.0.0.1");
  for (const auto& one : interfaces())
    for (const auto& address : one.addresses) {
      EXPECT_TRUE(is_local(address));
      if (!one.up || address.find('%') != std::string::npos) continue;
      EXPECT_EQ(interface_address(address), address);
    }
}

TEST(Interfaces, OneThatDoesNotExistIsRefusedWithTheListOfThoseThatDo) {
  for (const char* name : {"nosuch0", "lo:nosuch", "192.0.2.77", ""}) {
    const auto error = test::thrown_by([&] { interface_address(name); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << name;
    EXPECT_THAT(error.text, HasSubstr("\"" + std::string(name) + "\" does not exist; this host has: "));
    for (const auto& one : interfaces()) EXPECT_THAT(error.text, HasSubstr(one.name));
  }
}

// As the loopback of a new network namespace is.
TEST(Interfaces, OneWithoutAnAddressIsNotSaidNotToExist) {
  bootstrap::test::Child child([] {
    if (!enter_bare_network()) return 77;
    try {
      interface_address("lo");
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find("\"lo\" has no address; it may be down") == std::string::npos ? 1 : 0;
    }
    return 2;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(code, 0);
}

TEST(Interfaces, ALoopbackThatIsDownIsSaidToBe) {
  bootstrap::test::Child child([] {
    if (!enter_bare_network()) return 77;
    try {
      static_cast<void>(bootstrap::try_connect({"127.0.0.1", 9}, Deadline(std::chrono::seconds(20))));
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find("which is down (ip link set lo up): Network is unreachable") == std::string::npos ? 1
                                                                                                         : 0;
    }
    return 2;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(code, 0);
}

TEST(Interfaces, AnotherNameOfOneIsAsGood) {
  bootstrap::test::Child child([] {
    if (!enter_own_network() || !run_ip("link property add dev lo altname tutti0")) return 77;
    return interface_address("tutti0") == "127.0.0.1" ? 0 : 1;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces, or no ip(8) that gives other names, here";
  EXPECT_EQ(code, 0);
}

TEST(Interfaces, ALoopbackNeedsNoIpv4) {
  bootstrap::test::Child child([] {
    if (!enter_own_network() || loopback_address() != "127.0.0.1" || !run_ip("addr del 127.0.0.1/8 dev lo") ||
        loopback(interfaces()).addresses != std::vector<std::string>{"::1"})
      return 77;
    return bootstrap::read(UniqueId::create()).endpoint.address == "::1" ? 0 : 1;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces, no ip(8), or no IPv6 here";
  EXPECT_EQ(code, 0);
}

TEST(Interfaces, LinkLocalAddressesAreRefused) {
  int seen = 0;
  for (const auto& one : interfaces())
    for (const auto& address : one.addresses) {
      if (!address.starts_with("fe80:")) continue;
      ++seen;
      EXPECT_THAT(address, HasSubstr("%" + one.name));
      EXPECT_THROW(interface_address(address), Error);
      EXPECT_THROW(bootstrap::make_id({{address, 1}, {}}), Error);
    }
  if (seen == 0) GTEST_SKIP() << "no interface of this host has a link-local IPv6 address";
}

// As on a host that routers have told of a route, and nobody of an address.
TEST(Interfaces, ADefaultRouteFromALinkLocalAddressIsNone) {
  bootstrap::test::Child child([] {
    if (!enter_own_network() || !run_ip("-6 addr add fe80::5/64 dev lo nodad") ||
        !run_ip("-6 route add default dev lo") || !route_to("2001:db8::1").starts_with("fe80::"))
      return 77;
    try {
      static_cast<void>(default_route());
    } catch (const Error& error) {
      return error.code() == ErrorCode::system ? 0 : 1;
    }
    return 2;
  });
  const int code = child.wait();
  if (code == 77 || code == 99) GTEST_SKIP() << "no network namespaces, no ip(8), or no IPv6 here";
  EXPECT_EQ(code, 0);
}

TEST(Interfaces, PacketsToThisHostLeaveByTheLoopback) {
  EXPECT_EQ(route_to("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(route_to("127.1.2.3"), "127.0.0.1");
  EXPECT_EQ(route_to("::1"), "::1");
  EXPECT_THROW(route_to("not-numeric"), Error);
}

TEST(Interfaces, NamesAreResolved) {
  const Deadline deadline(std::chrono::seconds(60));
  EXPECT_THAT(resolve("localhost", deadline), testing::AnyOf(Contains("127.0.0.1"), Contains("::1")));
  EXPECT_EQ(resolve("10.1.2.3", deadline), std::vector<std::string>{"10.1.2.3"});
  EXPECT_THROW(resolve("no-such-host.invalid", deadline), Error);
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_local("192.0.2.77"));
}

TEST(Listener, IsBoundToTheChosenAddressOnly) {
  const auto id = UniqueId::create();
  auto endpoint = bootstrap::read(id).endpoint;
  EXPECT_EQ(endpoint.address, "127.0.0.1");
  EXPECT_TRUE(bootstrap::try_connect(endpoint, Deadline(std::chrono::seconds(1))));
  endpoint.address = "127.0.0.2";  // also the loopback's
  EXPECT_FALSE(bootstrap::try_connect(endpoint, Deadline(std::chrono::seconds(1))));
}

}  // namespace
}  // namespace tutti::topology
