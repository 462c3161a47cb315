#include "window/peers.hpp"

#include <fmt/format.h>

#include <cassert>

#include "bootstrap/frame.hpp"
#include "communicator/host_buffers.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"
#include "transport/shm/mapped_memory.hpp"
#include "transport/tcp/data_socket.hpp"
#include "transport/tcp/dial.hpp"
#include "transport/tcp/purpose.hpp"

namespace tutti::detail {

namespace {

using transport::shm::MemoryOffer;
using transport::shm::Reach;

/// What ranks tell each other, with the address of the listener.
struct Introduction {
  std::uint64_t bytes = 0;
  std::uint32_t notifications = 0;
  std::uint16_t port = 0;
  std::uint8_t shares = 0;        ///< memory with ranks of its host
  std::uint8_t misalignment = 0;  ///< of the memory's address, modulo 8
  std::uint64_t lent = 0;         ///< 1: other processes may be able to read and write it
  MemoryOffer memory, counters;
};

struct Contact : Introduction {
  std::string address;
};

/// What CUDA has mapped, another process may be unable to reach, as is memory of devices, and secret memory.
bool is_lent_to_processes(std::span<const std::byte> memory) {
  return !memory.empty() && owner_of(memory.data()) == Owner::host && is_lent(memory.data(), memory.size());
}

std::vector<Contact> exchange(const WindowSetting& setting, const transport::tcp::TcpListener* listener) {
  Introduction mine;
  mine.bytes = setting.memory.size();
  mine.notifications = setting.options.notifications;
  mine.misalignment = static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(setting.memory.data()) % 8);
  if (listener != nullptr) mine.port = listener->port();
  if (setting.shm != nullptr) {
    auto& direct = setting.shm->direct();
    mine.shares = 1;
    mine.lent = is_lent_to_processes(setting.memory) && direct.may_still_attach() ? 1 : 0;
    mine.memory = direct.offer(setting.memory.data(), setting.memory.size());
    mine.counters =
        direct.offer(setting.counters.get(), Counters::bytes_for(mine.notifications, setting.group.size));
  }
  const std::string address = listener != nullptr ? listener->address() : "";
  std::vector<Contact> all;
  for (auto& said : transport::all_gather(setting.group, mine, address)) {
    const Contact& contact = all.emplace_back(Contact{said.value, std::move(said.text)});
    if (contact.notifications == all.front().notifications) continue;
    const auto other = static_cast<Rank>(all.size()) - 1;
    throw Error(
        ErrorCode::mismatch,
        fmt::format("window \"{}\": rank 0 wants {} notifications, rank {} wants {}; all ranks must want "
                    "the same",
                    setting.options.name, all.front().notifications, other, contact.notifications),
        {0, other});
  }
  return all;
}

/// Of what waits for a peer before it is reached.
bootstrap::Limit first_contact(const WindowSetting& setting, Rank peer) {
  return {Deadline(setting.group.timeout), [&setting, peer] {
            if (setting.over())
              throw Error(ErrorCode::aborted, "the communicator of this window was destroyed before it");
            setting.check();
            if (const auto gone = setting.gone(peer))
              throw Error(ErrorCode::peer_lost, fmt::format("that rank {}", gone->did));
          }};
}

PrivateDescriptor connect(const WindowSetting& setting, Rank peer, const Contact& contact) {
  const auto world = [&](Rank rank) { return setting.group.world[static_cast<std::size_t>(rank)]; };
  const bootstrap::Hello hello{world(setting.group.rank), static_cast<std::uint32_t>(setting.group.size),
                               transport::tcp::Purpose{setting.number, 0, 0}.pack()};
  try {
    auto socket = transport::tcp::dial({contact.address, contact.port}, setting.secret, hello,
                                       first_contact(setting, peer));
    assert(socket);  // connections have one direction, so none cross
    transport::tcp::carry_data(socket.get(), setting.congestion);
    return socket;
  } catch (const Error& error) {
    throw bootstrap::while_connecting(error, fmt::format("connecting to rank {}: ", peer), setting.group.rank,
                                      peer);
  }
}

/// Chooses for one rank of a window.
class Chooser {
 public:
  Chooser(const WindowSetting& setting, const std::vector<Contact>& contacts, transport::RemoteAccess* access)
      : setting_(setting), contacts_(contacts), access_(access) {}

  WindowPeer choose(Rank rank) const {
    WindowPeer peer;
    peer.bytes = contact(rank).bytes;
    peer.misalignment = contact(rank).misalignment;
    if (rank == setting_.group.rank)
      peer.memory = over_own();
    else if (shares(rank))
      over_shared_memory(rank, peer);
    else
      over_network(rank, peer);
    return peer;
  }

 private:
  [[nodiscard]] const Contact& contact(Rank rank) const { return contacts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool shares(Rank rank) const {
    return setting_.shm != nullptr && contact(rank).shares != 0 && setting_.shm->reaches(rank);
  }
  [[nodiscard]] transport::shm::LocalPlaces places(std::byte* memory, std::byte* counters) const {
    const auto stride = Counters::offset_of(1, 0, setting_.group.size);
    return {setting_.memory.data(), memory,
            counters + Counters::offset_of(0, setting_.group.rank, setting_.group.size), stride};
  }
  [[nodiscard]] std::unique_ptr<transport::RemoteMemory> over_own() const {
    return std::make_unique<transport::shm::MappedMemory>(
        places(setting_.memory.data(), setting_.counters.get()), "this rank's own memory");
  }

  void over_shared_memory(Rank rank, WindowPeer& peer) const {
    auto& direct = setting_.shm->direct();
    const int local = setting_.shm->local_of(rank);
    const Contact& to = contact(rank);
    std::byte* const counters = direct.map(local, to.counters);
    switch (direct.reach(to.memory)) {
      case Reach::mapped: {
        std::byte* const memory = to.bytes == 0 ? nullptr : direct.map(local, to.memory);
        peer.memory = std::make_unique<transport::shm::MappedMemory>(
            places(memory, counters),
            direct.same_process() ? "memory of the same process" : "shared memory, mapped");
        return;
      }
      case Reach::attach:
        if (to.lent == 0) {
          peer.memory = over_tcp(rank,
                                 "memory of another process of this host that the kernel lends to none, or "
                                 "CUDA's (memory from allocate would be mapped)");
          return;
        }
        if (direct.may_still_attach()) {
          peer.memory = std::make_unique<transport::shm::AttachedMemory>(
              // NOLINTNEXTLINE(performance-no-int-to-ptr): the peer's address, for the kernel
              places(reinterpret_cast<std::byte*>(to.memory.address), counters), setting_.group.rank,
              direct.process(local), rank, [ended = setting_.ended, rank] { ended(rank); });
          peer.owner = over_tcp(rank, "atomics are done by the owner");
          return;
        }
        [[fallthrough]];
      case Reach::none:
        peer.memory = over_tcp(rank,
                               "plain memory of another process of this host, to which the kernel permits no "
                               "cross-memory attach (memory from allocate would be mapped)");
    }
  }

  void over_network(Rank rank, WindowPeer& peer) const {
    if (access_ == nullptr || !setting_.network->reaches(rank)) {
      peer.memory = over_tcp(rank, setting_.network == nullptr        ? setting_.why_no_network(rank)
                                   : !setting_.network->reaches(rank) ? setting_.network->explain(rank)
                                                                      : "windows do not use iWARP");
      return;
    }
    peer.owner = over_tcp(rank, "atomics are done by the owner");
    peer.by_access = true;
    peer.memory = access_->reach(
        rank, [owner = peer.owner.get(), setting = &setting_, rank](std::span<const std::byte> question) {
          return owner->ask(question, first_contact(*setting, rank));
        });
  }

  [[nodiscard]] std::unique_ptr<transport::tcp::TcpMemory> over_tcp(Rank rank, const std::string& why) const {
    const Contact& to = contact(rank);
    return std::make_unique<transport::tcp::TcpMemory>(
        setting_.group.rank, setting_.memory.data(), rank,
        [setting = &setting_, rank, to] { return connect(*setting, rank, to); },
        fmt::format("tcp to {} port {}, because: {}", to.address, to.port, why));
  }

  const WindowSetting& setting_;
  const std::vector<Contact>& contacts_;
  transport::RemoteAccess* access_;
};

/// Some peer cannot map this rank's memory.
bool needs_server(const WindowSetting& setting) {
  if (setting.group.size == 1) return false;
  if (setting.shm == nullptr || !setting.shm->all_local()) return true;
  auto& direct = setting.shm->direct();
  return direct.reach(direct.offer(setting.memory.data(), setting.memory.size())) != Reach::mapped;
}

}  // namespace

WindowPeers::WindowPeers(const WindowSetting& setting, Counters& counters) {
  std::shared_ptr<transport::tcp::TcpListener> listener;
  transport::do_together(setting.group, [&] { listener = open(setting, counters); });
  const auto contacts = exchange(setting, listener.get());
  const Chooser chooser(setting, contacts, access.get());
  // Who cannot map a peer has no window, into which others would put.
  transport::do_together(setting.group, [&] {
    for (Rank rank = 0; rank < setting.group.size; ++rank) all.push_back(chooser.choose(rank));
  });
}

std::shared_ptr<transport::tcp::TcpListener> WindowPeers::open(const WindowSetting& setting,
                                                               Counters& counters) {
  const std::size_t counter_bytes = Counters::bytes_for(counters.numbers(), setting.group.size);
  if (setting.network != nullptr) {
    auto exposed = setting.network->expose(
        {.memory = setting.memory,
         .counters = {setting.counters.get(), counter_bytes},
         .signalled = [&counters](std::uint32_t id, Rank from) { counters.add_beside(id, from); },
         .rank = setting.group.rank,
         .size = setting.group.size});
    access.reset(exposed.release());
  }
  if (!needs_server(setting)) return nullptr;
  transport::tcp::check_congestion(setting.congestion);
  auto listener = setting.listener();
  transport::tcp::Served served;
  served.congestion = setting.congestion;
  served.memory = setting.memory;
  served.notifications = counters.numbers();
  served.notify = [&counters](std::uint32_t id, Rank from) { counters.add(id, from); };
  if (access)
    served.ask = [this](Rank from, std::span<const std::byte> question) {
      return access->answer(from, question);
    };
  // Open before the peers learn the port.
  server.reset(new transport::tcp::WindowServer(std::move(served), setting.group.rank, setting.group.world,
                                                listener->open_inbox(setting.number)));
  return listener;
}

}  // namespace tutti::detail
