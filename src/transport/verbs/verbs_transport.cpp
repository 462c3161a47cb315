#include "transport/verbs/verbs_transport.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

#include "base/system_error.hpp"
#include "base/timespec.hpp"
#include "bootstrap/frame.hpp"
#include "transport/all_gather.hpp"
#include "transport/tcp/dial.hpp"
#include "transport/tcp/purpose.hpp"
#include "transport/verbs/device_memory.hpp"
#include "transport/verbs/probe.hpp"
#include "transport/verbs/window_access.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int control_channel = 64;  ///< in a Purpose; FIFOs over TCP have smaller numbers
// How often control connections are looked at, which takes a system call: while links come up, and then.
constexpr std::chrono::microseconds look_connecting{50};
constexpr std::chrono::microseconds look_connected{1000};
constexpr std::size_t completions_at_once = 16;
constexpr std::uint32_t events_of_rails = std::uint32_t{1}
                                          << 31U;  ///< in `Shared::looks`, with the rail's number

int this_node() {
  unsigned cpu = 0;
  unsigned node = 0;
  return ::getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : -1;
}

/// A part of leaving. Where it fails, a peer is gone, or a device is: that keeps no other part from being
/// done.
template <class Part>
bool attempt(const Part& part) {
  try {
    part();
    return true;
  } catch (const std::exception&) {
    return false;  // what they lack is theirs to report
  }
}

}  // namespace

void Shared::watch(int fd, std::uint32_t data) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u32 = data;
  if (::epoll_ctl(looks.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
}

VerbsTransport::VerbsTransport(Group group, std::shared_ptr<tcp::TcpListener> listener,
                               const bootstrap::Secret& secret, const VerbsOptions& options,
                               std::shared_ptr<Verbs> verbs)
    : group_(std::move(group)), listener_(std::move(listener)), secret_(secret) {
  shared_.verbs = std::move(verbs);
  shared_.options = options;
  shared_.rank = group_.rank;
  shared_.poll = [this] { poll(); };
  shared_.looks = PrivateDescriptor(FileDescriptor(::epoll_create1(EPOLL_CLOEXEC)));
  if (!shared_.looks) throw_errno("epoll_create1");
  try {
    open_rails();
  } catch (const Error& error) {
    // The others wait in the exchange: fail after it, or go without.
    shared_.rails.clear();
    why_none_ = bootstrap::to_fault(error).text;
    if (error.code() == ErrorCode::invalid_argument) wrong_options_ = std::current_exception();
  }
  inbox_ = listener_->open_inbox(group_.communicator);
  exchange();
  if (wrong_options_) std::rethrow_exception(wrong_options_);
  for (const auto& rail : shared_.rails) shared_.domains.push_back(rail->domain());
  shared_.owners.resize(shared_.rails.size());
  shared_.pool = std::make_unique<SlotPool>(*shared_.verbs, shared_.domains, shared_.agreed.message_bytes,
                                            shared_.traffic.memory_held);
  shared_.cache = std::make_unique<MemoryCache>(*shared_.verbs, shared_.domains);
}

void VerbsTransport::open_rails() {
  const bool named = shared_.options.devices != std::vector<std::string>{"all"};
  const auto devices =
      discover(*shared_.verbs, system_devices, named ? shared_.options.devices : std::vector<std::string>{});
  auto ports = choose_ports(devices, shared_.options, this_node(), why_none_);
  for (auto& port : ports) {
    auto gid = working_gid(*shared_.verbs, port, shared_.options);
    shared_.rails.push_back(std::make_unique<Rail>(*shared_.verbs, std::move(port), std::move(gid),
                                                   shared_.options, group_.rank, group_.size - 1));
    shared_.watch(shared_.rails.back()->device_events().fd(),
                  events_of_rails + static_cast<std::uint32_t>(shared_.rails.size() - 1));
  }
}

VerbsTransport::Contact VerbsTransport::contact() const {
  Contact mine;
  mine.port = listener_->port();
  mine.rails = static_cast<std::uint16_t>(shared_.rails.size());
  mine.message_bytes = static_cast<std::uint32_t>(shared_.options.message_bytes);
  mine.stripe_from = static_cast<std::uint32_t>(shared_.options.stripe_from);
  for (std::size_t k = 0; k < shared_.rails.size(); ++k)
    mine.rail.at(k) = {
        shared_.rails[k]->port().layer, shared_.rails[k]->gid().gid.roce_v2, shared_.rails[k]->partition(),
        static_cast<std::uint16_t>(shared_.rails[k]->setting(-1).mtu), shared_.rails[k]->gid().gid.raw};
  return mine;
}

bool VerbsTransport::compatible(const Contact::RailContact& a, const Contact::RailContact& b) {
  if (a.layer != b.layer || !share_partition(a.partition, b.partition)) return false;
  const Gid one{a.gid, 0, a.roce_v2};
  const Gid other{b.gid, 0, b.roce_v2};
  switch (a.layer) {
    case LinkLayer::infiniband:
      return std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());  // the same subnet
    case LinkLayer::roce:
      return a.roce_v2 == b.roce_v2 && one.is_ipv4() == other.is_ipv4();
    case LinkLayer::iwarp:
      return one.is_ipv4() == other.is_ipv4();
  }
  return false;
}

void VerbsTransport::exchange() {
  const Contact mine = contact();
  shared_.agreed = {mine.message_bytes, mine.stripe_from};
  for (auto& [contact, address] : all_gather(group_, mine, listener_->address())) {
    Peer& peer = peers_.emplace_back();
    peer.contact = contact;
    peer.address = std::move(address);
    shared_.agreed.message_bytes =
        std::min<std::size_t>(shared_.agreed.message_bytes, peer.contact.message_bytes);
    shared_.agreed.stripe_from = std::max<std::size_t>(shared_.agreed.stripe_from, peer.contact.stripe_from);
    if (peers_.size() == static_cast<std::size_t>(group_.rank) + 1) continue;
    const int both = std::min<int>({mine.rails, peer.contact.rails, max_rails});
    while (peer.rails < both && compatible(mine.rail.at(static_cast<std::size_t>(peer.rails)),
                                           peer.contact.rail.at(static_cast<std::size_t>(peer.rails))))
      ++peer.rails;
  }
  assert(peers_.size() == static_cast<std::size_t>(group_.size));
}

VerbsTransport::~VerbsTransport() {
  if (fork_generation() != generation_) return;
  attempt([this] { deliver(); });
  for (auto& peer : peers_)
    if (peer.link) attempt([&] { peer.link->say_bye(); });
  peers_.clear();
}

void VerbsTransport::deliver() {
  const Deadline deadline(linger);
  const auto delivered = [this] {
    return std::ranges::all_of(peers_,
                               [](const Peer& peer) { return !peer.link || peer.link->all_delivered(); });
  };
  while (!delivered() && !deadline.passed()) {
    for (auto& peer : peers_)
      if (peer.link && !peer.link->finished()) peer.link->request_completions();
    constexpr std::chrono::milliseconds nap{1};
    if (!attempt([&] { wait(nap); })) std::this_thread::sleep_for(nap);
  }
}

Traffic VerbsTransport::traffic() const {
  Traffic counted = shared_.traffic;
  for (const auto& pairs : shared_.owners) counted.queue_pairs += pairs.size();
  return counted;
}

double VerbsTransport::port_rate() const {
  constexpr double gigabit = 1e9 / 8;
  double rate = 0;
  for (const auto& rail : shared_.rails) rate += rail->port().gigabits * gigabit;
  return rate;
}

std::string VerbsTransport::explain_apart(Rank peer, std::uint16_t partition) const {
  const Rail& rail = *shared_.rails[0];
  const std::string why =
      share_partition(rail.partition(), partition)
          ? "of different kinds, or in different networks"
          : fmt::format(
                "in different partitions, or both limited members of one (their keys are {:#06x} and "
                "{:#06x}): TUTTI_VERBS_PKEY_INDEX chooses others",
                rail.partition(), partition);
  return fmt::format("verbs: {} here and the device of rank {} are {}", rail.device().name, peer, why);
}

std::string VerbsTransport::explain(Rank peer) const {
  if (peer == group_.rank) return "verbs does not lead from a rank to itself";
  if (shared_.rails.empty()) return "verbs: " + why_none_;
  const Contact& theirs = peers_.at(static_cast<std::size_t>(peer)).contact;
  if (theirs.rails == 0) return fmt::format("verbs: rank {} has no usable RDMA device", peer);
  if (!reaches(peer)) return explain_apart(peer, theirs.rail[0].partition);
  std::string text;
  for (int k = 0; k < rails_to(peer); ++k) {
    const auto& rail = *shared_.rails[static_cast<std::size_t>(k)];
    const auto& other = theirs.rail.at(static_cast<std::size_t>(k));
    text += fmt::format("{} {} port {}, {} {} -> {}, MTU {}, GID {} because {}",
                        k == 0 ? "verbs via" : "; and", rail.device().name, rail.port().number,
                        verbs::name(rail.port().layer), to_string(rail.gid().gid), to_string(Gid{other.gid}),
                        std::min<int>(rail.setting(peer).mtu, other.mtu), rail.gid().gid.index,
                        rail.gid().reason);
  }
  return text;
}

Link& VerbsTransport::link(Rank peer) {
  assert(peer != group_.rank && reaches(peer));
  auto& mine = peers_.at(static_cast<std::size_t>(peer));
  if (!mine.link) mine.link = std::make_unique<Link>(shared_, peer, mine.rails);
  return *mine.link;
}

void VerbsTransport::connect(Rank peer) {
  const Peer& theirs = peers_.at(static_cast<std::size_t>(peer));
  const bootstrap::Hello hello{group_.world[static_cast<std::size_t>(group_.rank)],
                               static_cast<std::uint32_t>(group_.size),
                               tcp::Purpose{group_.communicator, control_channel, 0}.pack()};
  const Deadline deadline(group_.timeout);
  try {
    auto socket = tcp::dial({theirs.address, theirs.contact.port}, secret_, hello,
                            {deadline, [this, peer] { check_peer(group_, peer); }});
    assert(socket);  // nobody opens an inbox's place for control
    link(peer).begin(std::move(socket), true);
    link(peer).check();
  } catch (const Error& error) {
    throw bootstrap::while_connecting(error, fmt::format("verbs to rank {}: ", peer), group_.rank, peer);
  }
}

void VerbsTransport::accept() {
  const auto filed = inbox_->filed();
  if (filed == inbox_seen_) return;
  inbox_seen_ = filed;
  for (Rank peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank || !reaches(peer)) continue;
    auto connection = inbox_->take(group_.world[static_cast<std::size_t>(peer)], control_channel, 0);
    if (connection) link(peer).begin(std::move(connection), false);
  }
}

Sender& VerbsTransport::sender(Rank peer, int channel) {
  Link& link = this->link(peer);
  if (link.unused()) accept();
  if (link.unused()) connect(peer);
  link.send_on(channel);
  return link.sender(channel);
}

Receiver& VerbsTransport::receiver(Rank peer, int channel) {
  Link& link = this->link(peer);
  link.receive_on(channel);
  return link.receiver(channel);
}

std::unique_ptr<RemoteAccess> VerbsTransport::expose(const Exposure& exposure) {
  if (shared_.rails.empty()) return nullptr;
  const Rail& rail = *shared_.rails.front();
  if (rail.port().layer == LinkLayer::iwarp) return nullptr;
  return std::make_unique<WindowAccess>(shared_.verbs, rail, exposure);
}

bool VerbsTransport::poll() {
  shared_.now = Clock::now();
  const bool moved = take_completions();
  return (shared_.now >= next_look_ && look_around()) || moved;
}

bool VerbsTransport::take_completions() {
  bool moved = false;
  for (std::size_t k = 0; k < shared_.rails.size(); ++k) {
    std::array<ibv_wc, completions_at_once> completions;
    for (int count = completions_at_once; count == completions_at_once;) {
      count = shared_.rails[k]->poll(completions);
      for (const auto& completion : std::span(completions).first(static_cast<std::size_t>(count))) {
        moved = true;
        // It only follows from another failure, and the device's own word, if any, says from which. Of iWARP
        // it means that the peer has closed.
        if (completion.status == IBV_WC_WR_FLUSH_ERR && shared_.rails[k]->manager() == nullptr)
          take_events(k);
        const auto owner = shared_.owners[k].find(completion.qp_num);
        if (owner != shared_.owners[k].end()) owner->second->complete(k, completion);
      }
    }
  }
  return moved;
}

// Control connections and asynchronous events: rare, and each look is a system call.
bool VerbsTransport::look_around() {
  bool moved = false;
  accept();
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(shared_.looks.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (const auto& one : std::span(ready).first(static_cast<std::size_t>(std::max(count, 0))))
    if (one.data.u32 >= events_of_rails)
      take_events(one.data.u32 - events_of_rails);
    else
      moved = peers_.at(one.data.u32).link->advance() || moved;
  bool connecting = false;
  for (auto& peer : peers_) {
    if (!peer.link) continue;
    peer.link->retry();
    connecting = connecting || peer.link->connecting();
  }
  rest_idle();
  for (std::size_t k = 0; k < shared_.rails.size(); ++k) moved = take_outcomes(k) || moved;
  next_look_ = Clock::now() + (connecting ? look_connecting : look_connected);
  looks_that_moved_ += moved ? 1 : 0;
  return moved;
}

// Counted here, where a rank is about to sleep, not where completions are taken.
std::uint64_t VerbsTransport::changes() const {
  std::uint64_t all = looks_that_moved_;
  for (const Peer& peer : peers_)
    if (peer.link) all += peer.link->completions_taken();
  return all;
}

// Where a device holds fewer queue pairs than there are peers, there is room for one more once others idle.
// Those of peers that have left take room, too.
int VerbsTransport::most_idle_links() const {
  const auto is_left_over = [](const auto& owned) { return owned.second->finished(); };
  int most = shared_.options.connected_peers;
  for (std::size_t k = 0; k < shared_.rails.size(); ++k) {
    const auto left_over = std::ranges::count_if(shared_.owners[k], is_left_over);
    most = std::min(most, shared_.rails[k]->most_idle_pairs() - static_cast<int>(left_over));
  }
  return most;
}

// One at a time: what is asked may be refused, and the next look is soon.
void VerbsTransport::rest_idle() {
  Link* oldest = nullptr;
  int awake = 0;
  for (auto& peer : peers_) {
    if (!peer.link || peer.link->finished() || !peer.link->awake()) continue;
    ++awake;
    if (peer.link->ready() && (oldest == nullptr || peer.link->used_at() < oldest->used_at()))
      oldest = peer.link.get();
  }
  if (awake <= most_idle_links() || oldest == nullptr) return;
  if (shared_.now - oldest->used_at() >= shared_.options.idle_after) oldest->try_to_rest();
}

bool VerbsTransport::take_outcomes(std::size_t rail) {
  auto* manager = shared_.rails[rail]->manager();
  if (manager == nullptr) return false;
  const auto outcomes = manager->advance();
  for (const auto& outcome : outcomes) {
    const auto owner = shared_.owners[rail].find(outcome.queue_pair);
    if (owner != shared_.owners[rail].end()) owner->second->managed_outcome(rail, outcome);
  }
  return !outcomes.empty();
}

void VerbsTransport::take_events(std::size_t rail) {
  auto& events = shared_.rails.at(rail)->device_events();
  while (const auto event = events.take())
    if (is_fatal(event->type)) fail_by(rail, *event);
  // That of a device which is gone would be readable for ever.
  if (events.loss()) ::epoll_ctl(shared_.looks.get(), EPOLL_CTL_DEL, events.fd(), nullptr);
}

// What befalls a queue pair is between two ranks; what befalls the device concerns all that use it.
void VerbsTransport::fail_by(std::size_t rail_number, const DeviceEvents::Event& event) {
  const Rail& rail = *shared_.rails[rail_number];
  if (event.queue_pair) {
    const auto owner = shared_.owners[rail_number].find(*event.queue_pair);
    if (owner == shared_.owners[rail_number].end()) return;
    Link& link = *owner->second;
    return link.fail_unless_gone(event_error(rail.place(link.peer()), event.type));
  }
  for (auto& peer : peers_)
    if (peer.link && static_cast<std::size_t>(peer.rails) > rail_number)
      peer.link->fail(event_error(rail.place(), event.type));
}

std::shared_ptr<void> VerbsTransport::register_memory(const std::byte* data, std::size_t bytes) {
  return shared_.cache->acquire(data, bytes);
}

std::unique_ptr<RegisteredDeviceMemory> VerbsTransport::register_device_memory(const DeviceMemory& memory) {
  return std::make_unique<VerbsDeviceMemory>(*shared_.verbs, shared_.domains, memory);
}

// What was sent to one peer may fail while this rank awaits another one, which awaits that peer.
void VerbsTransport::progress() {
  poll();
  if (shared_.failure) throw Error(*shared_.failure);
}

bool VerbsTransport::backlogged() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return peer.link && peer.link->backlogged(); });
}

void VerbsTransport::wait(std::chrono::microseconds longest) {
  waits_.clear();
  const timespec limit = timespec_of(longest);
  if (add_waits(waits_) && ::ppoll(waits_.data(), waits_.size(), &limit, nullptr) > 0) end_wait(waits_);
}

// The rails' completions first, then all that is looked around for.
bool VerbsTransport::add_waits(std::vector<pollfd>& waits) {
  for (auto& rail : shared_.rails) rail->arm();
  // What came before the queues were armed, and what follows from completions that were taken since the last
  // look.
  const auto changing = [](const Peer& peer) { return peer.link && peer.link->changing(); };
  if (std::ranges::any_of(peers_, changing)) next_look_ = {};
  const auto before = std::exchange(changes_before_wait_, std::nullopt);
  if (poll() || (before && *before != changes())) return false;
  for (const auto& rail : shared_.rails) waits.push_back({rail->event_fd(), POLLIN, 0});
  waits.push_back({inbox_->event(), POLLIN, 0});
  waits.push_back({shared_.looks.get(), POLLIN, 0});
  for (const auto& rail : shared_.rails)
    if (rail->manager() != nullptr) waits.push_back({rail->manager()->event_fd(), POLLIN, 0});
  return true;
}

void VerbsTransport::end_wait(std::span<const pollfd> waits) {
  const auto rails = shared_.rails.size();
  const auto happened = [](const pollfd& one) { return one.revents != 0; };
  for (std::size_t k = 0; k < rails; ++k)
    if (happened(waits[k])) shared_.rails[k]->clear_events();
  if (happened(waits[rails])) inbox_->clear_event();
  if (std::ranges::any_of(waits.subspan(rails), happened)) next_look_ = {};
  poll();
}

}  // namespace tutti::transport::verbs
