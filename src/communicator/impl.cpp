#include "communicator/impl.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "collectives/algorithms.hpp"
#include "topology/interface.hpp"
#include "transport/all_gather.hpp"
#ifdef TUTTI_HAVE_VERBS
#include "transport/verbs/verbs_transport.hpp"
#endif

namespace tutti::detail {

namespace {

// Polls before a waiting rank yields its processor. Measured with fewer and with more ranks than processors:
// docs/experiments-calls.md.
constexpr unsigned spin_alone = 1500;
constexpr unsigned looks_alone = 8;  // a poll
constexpr unsigned spin_shared = 40;
constexpr unsigned spin_alternating =
    1;  // one processor: whoever is awaited cannot work before it is given away

/// What is forced must exist. Whether it suits a call is found out by that call.
void check_forced(const Options& options) {
  const std::string& transport = options.transport;
  if (!transport.empty() && transport != "shm" && transport != "verbs" && transport != "tcp")
    throw Error(
        ErrorCode::invalid_argument,
        "transport \"" + transport + "\" (TUTTI_TRANSPORT) does not exist; there are shm, verbs and tcp");
  std::set<std::string_view> names;  // of those that can be forced
  bool exists = options.algorithm.empty();
  for (const Algorithm& algorithm : algorithms()) {
    exists = exists || algorithm.name == options.algorithm;
    if (!algorithm.one_sided) names.insert(algorithm.name);
  }
  if (!exists)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("algorithm \"{}\" (TUTTI_ALGORITHM) does not exist; there are {}",
                            options.algorithm, fmt::join(names, ", ")));
}

bool everybody_reached(const transport::Transport& transport, int size) {
  for (Rank r = 0; r < size; ++r)
    if (!transport.reaches(r)) return false;
  return true;
}

/// RDMA, if it leads to anybody, else nothing and the reasons in `why_not`; with `forced`, Error(unsupported)
/// unless it leads to everybody. Collective.
std::unique_ptr<transport::Transport> make_verbs(
    [[maybe_unused]] const transport::Group& group,
    [[maybe_unused]] const std::shared_ptr<transport::tcp::TcpListener>& listener,
    [[maybe_unused]] const bootstrap::Secret& secret, bool forced, transport::WhyNot& why_not) {
#ifdef TUTTI_HAVE_VERBS
  auto verbs = std::make_unique<transport::verbs::VerbsTransport>(group, listener, secret);
  bool some = false;
  for (Rank r = 0; r < group.size; ++r) {
    some = some || verbs->reaches(r);
    if (forced && r != group.rank && !verbs->reaches(r))
      throw Error(ErrorCode::unsupported, "transport verbs is forced, but " + verbs->explain(r), {r});
  }
  if (some) return verbs;
  why_not = transport::WhyNot(*verbs, group.rank, group.size);
#else
  why_not = transport::WhyNot("verbs: not in this build of tutti");
  if (forced) throw Error(ErrorCode::unsupported, "transport verbs is forced, but " + why_not.to(0));
#endif
  return nullptr;
}

}  // namespace

transport::Transport& Routes::to(Rank peer) {
  if (shm_ != nullptr && shm_->reaches(peer)) return *shm_;
  if (verbs_ != nullptr && verbs_->reaches(peer)) return *verbs_;
  return *tcp_;
}

transport::Sender& Routes::stream_sender(Rank peer, int channel) {
  transport::Transport& on = to(peer);
  return on.sender(peer, &on == shm_ ? transport::stream_channel : channel);
}

transport::Receiver& Routes::stream_receiver(Rank peer, int channel) {
  transport::Transport& on = to(peer);
  return on.receiver(peer, &on == shm_ ? transport::stream_channel : channel);
}

transport::Sender* Routes::multicast_sender(int channel) { return shm_->multicast_sender(channel); }

transport::Receiver* Routes::multicast_receiver(Rank from, int channel) {
  return shm_->multicast_receiver(from, channel);
}

Region::~Region() {
  devices.reset();  // before its pages go
  if (const auto direct = memory.lock()) (*direct)->release(data);
}

Impl::Impl(std::shared_ptr<Watch> the_watch, std::shared_ptr<transport::tcp::TcpListener> the_listener,
           transport::Group the_group, const Options& the_options,
           std::shared_ptr<const tuning::Tuning> tuning)
    : watch(std::move(the_watch)),
      listener(std::move(the_listener)),
      group(std::move(the_group)),
      options(the_options) {
  install_fork_guard();
  fork_generation = tutti::fork_generation();
  check_parent = std::move(group.check_members);
  group.check_members = [this] {
    if (check_parent) check_parent();
    ensure_usable();
    if (const auto error = heard(nullptr)) throw Error(*error);
  };
  group.gone = [this](Rank r) { return gone(r).has_value(); };
  check_forced(options);
  connect();
  planner = std::make_unique<Planner>(planner_setting(std::move(tuning)));
  direct_handle = std::make_shared<transport::shm::DirectMemory*>(&shm->direct());

  const auto n = static_cast<std::size_t>(group.size);
  for (auto& kind : message_tickets) kind.resize(n);
  spin_polls = shm->cpus() == 1                                                          ? spin_alternating
               : tcp == nullptr && static_cast<int>(shm->locals().size()) <= shm->cpus() ? spin_alone
                                                                                         : spin_shared;
  looks_beside = spin_polls == spin_shared;
  looks_a_poll = spin_polls == spin_alone && verbs == nullptr ? looks_alone : 1;
}

std::shared_ptr<transport::tcp::TcpListener> Impl::data_listener() {
  if (listener == nullptr) {
    const auto& session = watch->session();
    listener = std::shared_ptr<transport::tcp::TcpListener>(
        new transport::tcp::TcpListener(
            options.interface.empty() ? session.address() : topology::interface_address(options.interface),
            session.secret()),
        DeleteUnlessForked{});
  }
  return listener;
}

void Impl::connect() {
  const bool verbs_only = options.transport == "verbs";
  network_only = options.transport == "tcp" || verbs_only;
  shm = std::make_unique<transport::shm::ShmTransport>(group, !network_only);
  call_log = &shm->control(group.rank);
  for (const Rank r : shm->locals())
    watch->know(group.world[static_cast<std::size_t>(r)], shm->direct().process(shm->local_of(r)));
  all_shared = !network_only && everybody_reached(*shm, group.size);
  if (!all_shared && options.transport == "shm")
    throw Error(ErrorCode::unsupported, "transport shm is forced, but not all ranks are on one host");
  if (!all_shared && group.size > 1) {
    transport::tcp::TcpOptions tcp_options;
    tcp_options.streams = options.tcp_streams;
    tcp_options.congestion = options.tcp_congestion;
    tcp = std::make_unique<transport::tcp::TcpTransport>(group, data_listener(), watch->session().secret(),
                                                         tcp_options);
    if (options.transport != "tcp")
      verbs = make_verbs(group, listener, watch->session().secret(), verbs_only, why_no_verbs);
  }
  routes = std::make_unique<Routes>(network_only ? nullptr : shm.get(), verbs.get(), tcp.get(), all_shared);
  const std::array<transport::Transport*, 3> all{verbs.get(), tcp.get(), shm.get()};
  sleepers.reserve(all.size());
  std::vector<transport::Transport*> used;
  for (transport::Transport* const one : all) {
    if (one == nullptr) continue;
    std::vector<std::uint8_t> others(static_cast<std::size_t>(group.size));
    for (Rank r = 0; r < group.size; ++r)
      others[static_cast<std::size_t>(r)] = r != group.rank && &routes->to(r) != one ? 1 : 0;
    if (group.size > 1 && std::ranges::count(others, 0) == 1) continue;  // leads to nobody
    sleepers.push_back({transport::Sleep({one}), std::move(others)});
    used.push_back(one);
  }
  on_all = transport::Sleep(std::move(used));
}

std::size_t Impl::max_message() const {
  constexpr std::size_t alone = std::size_t{1} << 20U;  // one rank that uses no transport
  if (all_shared) return shm->max_message_bytes();
  std::size_t bytes = tcp == nullptr ? alone : tcp->max_message_bytes();
  if (tcp != nullptr && !network_only && shm->locals().size() > 1)
    bytes = std::min(bytes, shm->max_message_bytes());
  if (verbs != nullptr) bytes = std::min(bytes, verbs->max_message_bytes());
  return std::ranges::min(all_gather(group, bytes));  // who is alone on its host uses other transports
}

Planner::Setting Impl::planner_setting(std::shared_ptr<const tuning::Tuning> tuning) const {
  Planner::Setting setting;
  setting.rank = group.rank;
  setting.size = group.size;
  setting.shared_memory = all_shared;
  setting.can_attach = all_shared && shm->direct().can_attach() && !shm->direct().same_process();
  setting.max_message = max_message();
  setting.last_cache = shm->last_cache();
  setting.node_size = options.node_size > 0 ? std::min(options.node_size, group.size) : shm->host_size();
  setting.channels = routes.get();
  setting.options = &options;
  setting.direct_memory = all_shared && group.size > 1 && shm->direct().same_process();
  setting.tuning = std::move(tuning);
  setting.scene = scene(setting.node_size);
  setting.choices = agree_on_choices(*setting.tuning, setting.scene);
  return setting;
}

}  // namespace tutti::detail
