#include "two_hosts.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include "rig.hpp"
#include "tcp_ranks.hpp"

namespace tutti::transport::testing {

namespace {

std::string address(Rank rank) { return "10.77.0." + std::to_string(rank + 1); }

// The commands are made of constants and a process number only.
bool ip(const std::string& arguments) {
  return std::system(("ip " + arguments + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT(cert-env33-c)
}

void put(int socket, const void* data, std::size_t bytes) {
  if (::write(socket, data, bytes) != static_cast<ssize_t>(bytes))
    throw std::runtime_error("cannot write to the other host");
}

/// Both ranks' bytes, over a socket pair.
std::vector<std::vector<std::byte>> swap_bytes(int socket, Rank rank, std::span<const std::byte> mine) {
  put(socket, mine.data(), mine.size());
  std::vector<std::byte> theirs(1024);
  const auto got = ::recv(socket, theirs.data(), theirs.size(), 0);  // SOCK_SEQPACKET: one whole message
  if (got <= 0) throw std::runtime_error("the other host is gone");
  theirs.resize(static_cast<std::size_t>(got));
  std::vector<std::vector<std::byte>> both{{mine.begin(), mine.end()}, theirs};
  if (rank == 1) std::swap(both[0], both[1]);
  return both;
}

void enter(const std::string& space) {
  const FileDescriptor file(::open(("/var/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::setns(file.get(), CLONE_NEWNET) != 0)
    throw std::runtime_error("cannot enter namespace " + space);
}

}  // namespace

TwoHosts::TwoHosts() : name_("tutti-tcp-" + std::to_string(::getpid()) + "-") {
  const std::string a = name_ + "0";
  const std::string b = name_ + "1";
  if (::geteuid() != 0) {
    missing_ = "network namespaces need root";
  } else if (!ip("netns add " + a) || !ip("netns add " + b)) {
    missing_ = "'ip netns add' does not work here";
  } else if (!ip("-n " + a + " link add eth0 type veth peer name eth0 netns " + b)) {
    missing_ = "no virtual Ethernet (veth) in this kernel";
  } else {
    for (const Rank rank : {0, 1}) {
      const std::string host = "-n " + name_ + std::to_string(rank);
      if (!ip(host + " addr add " + address(rank) + "/24 dev eth0") || !ip(host + " link set eth0 up") ||
          !ip(host + " link set lo up"))
        missing_ = "cannot configure " + host;
    }
  }
}

TwoHosts::~TwoHosts() {
  for (const Rank rank : {0, 1}) ip("netns del " + name_ + std::to_string(rank));
}

std::string TwoHosts::run(void (*body)(tcp::TcpTransport&, Rank), tcp::TcpOptions options) {
  return run([&](Rank rank, int socket) {
    auto group = local_groups(2)[static_cast<std::size_t>(rank)];
    group.all_gather = [&](std::span<const std::byte> mine) { return swap_bytes(socket, rank, mine); };
    tcp::TcpTransport transport(group, std::make_shared<tcp::TcpListener>(address(rank), tcp_secret),
                                tcp_secret, options);
    body(transport, rank);
    const std::byte goodbye{};  // a host stays until the other one has read all
    swap_bytes(socket, rank, {&goodbye, 1});
  });
}

std::string TwoHosts::run(const std::function<void(Rank rank, int socket)>& body) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    return "socketpair failed";
  std::array<pid_t, 2> processes{};
  for (const Rank rank : {0, 1}) {
    const auto me = static_cast<std::size_t>(rank);
    processes.at(me) = ::fork();
    if (processes.at(me) != 0) continue;
    ::close(sockets.at(1 - me));
    ::alarm(60);  // a host that hangs ends
    int status = 0;
    try {
      enter(name_ + std::to_string(rank));
      body(rank, sockets.at(me));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "host %d: %s\n", rank, error.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  for (const int socket : sockets) ::close(socket);
  std::string wrong;
  for (const Rank rank : {0, 1}) {
    int status = 0;
    ::waitpid(processes.at(static_cast<std::size_t>(rank)), &status, 0);
    if (status != 0)
      wrong += "host " + std::to_string(rank) + " ended with status " + std::to_string(status) + "; ";
  }
  return wrong;
}

}  // namespace tutti::transport::testing
