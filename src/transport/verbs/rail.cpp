#include "transport/verbs/rail.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>

#include <tutti/error.hpp>

namespace tutti::transport::verbs {

namespace {

constexpr std::uint32_t receive_bytes = 8;
constexpr std::size_t places_a_block = 4096 / receive_bytes;

/// The key in this place of the port's table; 0: not known. Throws Error(invalid_argument) where there is
/// none.
std::uint16_t key_at(Verbs& verbs, ibv_context* context, const Place& port, int index) {
  const auto look = [&](int at) -> std::optional<std::uint16_t> {
    __be16 key = 0;
    if (verbs.query_pkey(context, port.port, at, &key) != 0) return std::nullopt;
    return ntohs(key);
  };
  const auto key = look(index);
  const bool is_none = key ? *key == 0 : look(0).has_value();  // a table that cannot be read may hold it
  if (index > 0 && is_none)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("verbs, {} port {}: no partition has index {} (TUTTI_VERBS_PKEY_INDEX); those that "
                    "there are: /sys/class/infiniband/{}/ports/{}/pkeys",
                    port.device, port.port, index, port.device, port.port));
  return key.value_or(0);
}

}  // namespace

Rail::Rail(Verbs& verbs, ChosenPort chosen, ChosenGid gid, const VerbsOptions& options, Rank rank, int peers)
    : verbs_(verbs),
      chosen_(std::move(chosen)),
      gid_(std::move(gid)),
      options_(options),
      rank_(rank),
      patience_{options.timeout, effective_retries(options.retries, chosen_.device.vendor)},
      peers_(std::max(peers, 1)) {
  context_ = Context(made(verbs.open_device(device().name), place(), "opening the device"), {&verbs});
  device_events_.emplace(verbs, context_.get());
  if (port().layer != LinkLayer::iwarp)  // which has no partitions
    partition_ = key_at(verbs, context_.get(), place(), options_.pkey_index);
  domain_ = Domain(made(verbs.alloc_pd(context_.get()), place(), "allocating a protection domain"), {&verbs});
  events_.emplace(verbs, context_.get(), place());
  make_queues();
  if (port().layer == LinkLayer::iwarp) manager_ = std::make_unique<ConnectionManager>(place(), gid_.gid);
}

void Rail::make_queues() {
  ibv_device_attr limits{};
  if (const int code = verbs_.query_device(context_.get(), &limits); code != 0)
    throw call_error(place(), "querying the device", errno_of(code));
  const int a_pair = sends_a_peer + receives_a_peer;
  most_pairs_ = std::min({limits.max_cqe / a_pair, limits.max_qp, peers_});
  completions_ =
      CompletionQueue(made(verbs_.create_cq(context_.get(), most_pairs_ * a_pair, events_->channel()),
                           place(), "creating a completion queue"),
                      {&verbs_});
  if (!options_.shared_receives || limits.max_srq == 0 || limits.max_srq_wr < most_pairs_ * receives_a_peer)
    return;
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = static_cast<std::uint32_t>(most_pairs_ * receives_a_peer);
  attributes.attr.max_sge = 1;
  // Where a device says it has shared queues and then has none, each pair gets its own.
  shared_ = SharedReceiveQueue(verbs_.create_srq(domain_.get(), &attributes), {&verbs_});
}

Place Rail::place(Rank peer) const { return {rank_, peer, device().name, port().number}; }

QueuePairSetting Rail::setting(Rank peer) const {
  QueuePairSetting setting;
  setting.place = place(peer);
  setting.max_inline = options_.max_inline;
  setting.port = port().number;
  setting.managed = manager_ != nullptr;
  setting.manager_port = manager_ ? manager_->port() : std::uint16_t{0};
  setting.global_route = port().layer != LinkLayer::infiniband || port().needs_global_route;
  setting.gid = gid_.gid.raw;
  setting.gid_index = gid_.gid.index;
  setting.lid = port().lid;
  setting.mtu = options_.mtu == 0 ? port().mtu : std::min(options_.mtu, port().mtu);
  setting.pkey_index = options_.pkey_index;
  setting.service_level = options_.service_level;
  setting.traffic_class = options_.traffic_class;
  setting.patience = patience_;
  return setting;
}

std::unique_ptr<QueuePair> Rail::make_pair(Rank peer) {
  if (const auto loss = device_events_->loss()) throw event_error(place(peer), *loss);
  QueuePairSetting setting = this->setting(peer);
  if (pairs_ == most_pairs_)
    throw Error(
        ErrorCode::system,
        fmt::format("verbs, {} port {}: {} queue pairs are in use, and this device allows no more "
                    "(max_cqe / {}, max_qp: see ibv_devinfo -v); talk to fewer peers at a time (rings "
                    "and trees do), or go without this device (TUTTI_VERBS_DEVICES)",
                    setting.place.device, setting.place.port, pairs_, sends_a_peer + receives_a_peer),
        {rank_});
  setting.domain = domain_.get();
  setting.completions = completions_.get();
  setting.shared_receives = shared_.get();
  setting.sends = sends_a_peer;
  setting.receives = receives_a_peer;
  auto pair = std::make_unique<QueuePair>(verbs_, setting);
  ++pairs_;
  try {
    post_receives(*pair, peer);
    if (manager_) manager_->expect(pair->number(), pair->address().token);
  } catch (...) {
    forget_pair(*pair);
    throw;
  }
  return pair;
}

void Rail::post_receives(const QueuePair& pair, Rank peer) {
  if (shared_) {
    for (; shared_posted_ < pairs_ * receives_a_peer; ++shared_posted_)
      post_receive(free_place(), nullptr, peer);
    return;
  }
  auto& places = own_places_[pair.number()];
  while (places.size() < receives_a_peer) {
    places.push_back(free_place());
    post_receive(places.back(), pair.handle(), peer);
  }
}

// The receives of a shared queue stay, and serve the next pair.
void Rail::forget_pair(const QueuePair& pair) {
  --pairs_;
  if (manager_) manager_->forget(pair.number());
  const auto own = own_places_.extract(pair.number());
  if (own) free_places_.insert(free_places_.end(), own.mapped().begin(), own.mapped().end());
}

std::size_t Rail::free_place() {
  if (free_places_.empty()) {
    receive_blocks_.push_back(std::make_unique<Block>(verbs_, Domains{domain_.get()},
                                                      places_a_block * receive_bytes, Access::local_write));
    free_places_.reserve(receive_blocks_.size() * places_a_block);  // so that giving back cannot fail
    for (std::size_t k = 0; k < places_a_block; ++k)
      free_places_.push_back((receive_blocks_.size() - 1) * places_a_block + k);
  }
  const auto place = free_places_.back();
  free_places_.pop_back();
  return place;
}

std::byte* Rail::buffer_of(std::size_t place_number) const {
  return receive_blocks_[place_number / places_a_block]->data() +
         place_number % places_a_block * receive_bytes;
}

void Rail::post_receive(std::size_t place_number, ibv_qp* pair, Rank peer) {
  ibv_sge piece{address_of(buffer_of(place_number)), receive_bytes,
                receive_blocks_[place_number / places_a_block]->region()->local_key(0)};
  ibv_recv_wr request{};
  request.wr_id = receive_mark | place_number;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int code =
      shared_ ? verbs_.post_srq_recv(shared_.get(), &request, &bad) : verbs_.post_recv(pair, &request, &bad);
  if (code != 0) throw call_error(place(peer), "posting a receive", errno_of(code));
}

int Rail::poll(std::span<ibv_wc> completions) {
  const int count =
      verbs_.poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
  if (count < 0) throw call_error(place(), "polling the completion queue", EIO);
  if (count > 0) events_->taken();
  return count;
}

std::uint32_t Rail::immediate_of(const ibv_wc& completion) const {
  std::uint32_t value = completion.imm_data;
  if ((completion.wc_flags & IBV_WC_WITH_IMM) == 0)
    std::memcpy(&value, buffer_of(place_of(completion)), sizeof value);
  return ntohl(value);
}

void Rail::post_again(const ibv_wc& completion, const QueuePair& pair, Rank peer) {
  post_receive(place_of(completion), pair.handle(), peer);
}

}  // namespace tutti::transport::verbs
