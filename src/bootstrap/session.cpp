#include "bootstrap/session.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/system_error.hpp"
#include "bootstrap/authenticate.hpp"
#include "bootstrap/environment.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/hmac.hpp"
#include "bootstrap/member.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/variables.hpp"
#include "topology/host.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap {
namespace {

constexpr int largest_group = 1 << 20;
constexpr std::chrono::milliseconds longest_elsewhere{3000};

/// One rank: there is nobody to talk to.
class Solo final : public Session {
 public:
  Solo() { random_bytes(secret_); }
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] const Secret& secret() const override { return secret_; }
  [[nodiscard]] std::string address() const override { return topology::loopback_address(); }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine,
                                std::chrono::milliseconds /*timeout*/) override {
    return {Bytes(mine.begin(), mine.end())};
  }
  std::optional<Notice> poll() override { return std::nullopt; }
  bool hub_has_ended() override { return false; }
  void announce_failure(std::uint64_t /*communicator*/, const Error& /*why*/) noexcept override {}
  void announce_abort(std::uint64_t /*communicator*/, const Error& /*why*/) noexcept override {}
  void announce_closed(std::uint64_t /*communicator*/, std::span<const Rank> /*members*/) noexcept override {}
  void report_stuck(std::uint64_t /*communicator*/, Rank /*me*/,
                    std::span<const CallRecord> /*calls*/) noexcept override {}
  void leave(std::chrono::milliseconds /*linger*/) noexcept override {}

 private:
  Secret secret_{};
};

std::shared_ptr<Session> found(const UniqueId& id, int size, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const auto [endpoint, secret, loopback] = read(id);
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0)
    throw_errno("socketpair");
  FileDescriptor hubs(pair[0]), mine(pair[1]);
  auto listener = take_listener(id, std::min(timeout, port_patience));
  const std::chrono::milliseconds left(deadline.poll_ms());
  auto hub = std::make_unique<Hub>(std::move(listener), secret, size, left, std::move(hubs));
  auto member = std::make_shared<Member>(Member::Identity{0, size, secret, endpoint.address}, std::move(mine),
                                         std::move(hub));
  member->await_welcome(left);
  return member;
}

/// `doing`: what errors begin with.
FileDescriptor connect_to_hub(const Rendezvous& at, const Hello& hello, const std::string& doing,
                              const Deadline& deadline) {
  const auto mine = at.loopback == 0 ? 0 : topology::this_loopback();
  const bool elsewhere = mine != 0 && mine != at.loopback;
  // All ranks may be there where the id was not made: in one container, say.
  const std::chrono::milliseconds left(deadline.poll_ms());
  const Deadline by = elsewhere ? Deadline(std::min(left, longest_elsewhere)) : deadline;
  try {
    return connect_authenticated(at.endpoint.address, at.endpoint.port, at.secret, hello, by);
  } catch (const Error& error) {
    if (!elsewhere) throw with_context(error, doing + ": ", {});
    throw Error(ErrorCode::invalid_argument,
                doing + ": the unique id is of " + at.endpoint.address +
                    " on another host (or in another network namespace); make it there for an interface by "
                    "which others reach rank 0: UniqueId::create(\"default\"), or TUTTI_INTERFACE",
                {0});
  }
}

std::shared_ptr<Session> enter(const UniqueId& id, Rank rank, int size, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const auto rendezvous = read(id);
  for (std::string again;;) {
    auto socket = connect_to_hub(rendezvous, {rank, static_cast<std::uint32_t>(size), 0},
                                 joining(rank, size) + again, deadline);
    Member::Identity identity{rank, size, rendezvous.secret, local_endpoint(socket.get()).address};
    auto member = std::make_shared<Member>(std::move(identity), std::move(socket), nullptr);
    const auto ended = member->await_welcome(std::chrono::milliseconds(deadline.poll_ms()));
    if (!ended) return member;
    again = " once more (" + ended->text + ")";
  }
}

/// Where MASTER_ADDR is a name, that means `address` here, and a loopback address means each host itself.
std::string doubt_of_master(const Endpoint& endpoint) {
  const auto& [address, port] = endpoint;
  const auto master = variable("MASTER_ADDR");
  const bool by_master =
      variable("MASTER_PORT") == std::to_string(port - 1) || variable("TUTTI_PORT") == std::to_string(port);
  if (!master || !by_master) return "";
  if (topology::is_loopback(address))
    return " MASTER_ADDR=" + *master + " is " + address +
           ", this host itself; if rank 0 is on another one, give the address by which others reach it";
  if (*master == address) return "";
  return " MASTER_ADDR=" + *master + " is " + address +
         " here; if it is another address on rank 0's host, give a number instead of the name";
}

}  // namespace

std::shared_ptr<Session> Session::join(const UniqueId& id, Rank rank, int size,
                                       std::chrono::milliseconds timeout) {
  if (size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                                 ": size is at least 1, and ranks go from 0 to size - 1");
  if (size > largest_group)
    throw Error(ErrorCode::invalid_argument, "a group of " + std::to_string(size) + " ranks; the most are " +
                                                 std::to_string(largest_group));
  install_fork_guard();
  mark_used(id);
  if (size == 1) {
    drop_listener(id);
    return std::make_shared<Solo>();
  }
  try {
    return rank == 0 ? found(id, size, timeout) : enter(id, rank, size, timeout);
  } catch (const Error& error) {
    const auto fault = to_fault(error);
    const bool no_hub = rank != 0 && fault.code == ErrorCode::timeout && fault.ranks.empty();
    if (!no_hub) throw;
    if (holds_listener(id))  // whoever forgets to hand on rank 0's id connects to itself
      throw Error(fault.code,
                  joining(rank, size) +
                      ": this process made the unique id, and rank 0 did not join with it here; all ranks "
                      "need one and the same id, made once, in rank 0's process",
                  {0});
    throw Error(fault.code,
                fault.text + "; is rank 0 running, and is the group not complete without this rank?" +
                    doubt_of_master(read(id).endpoint),
                {0});
  }
}

}  // namespace tutti::bootstrap
