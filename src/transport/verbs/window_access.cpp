#include "transport/verbs/window_access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/coarse_clock.hpp"
#include "transport/verbs/window_memory.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr std::chrono::milliseconds look_interval{1};  // for events: a look is a system call
constexpr int most_reads = 16;  // more does not fill a link better, and takes memory of the device

}  // namespace

WindowAccess::WindowAccess(std::shared_ptr<Verbs> verbs, const Rail& rail, const Exposure& exposure)
    : verbs_(std::move(verbs)),
      exposure_(exposure),
      setting_(rail.setting(-1)),
      longest_message_(rail.port().longest_message),
      signal_(rail.wanted_signal()),
      layer_(rail.port().layer) {
  const Place& place = setting_.place;
  context_ = Context(made(verbs_->open_device(device()), place, "opening the device"), {verbs_.get()});
  events_.emplace(*verbs_, context_.get());
  domain_ =
      Domain(made(verbs_->alloc_pd(context_.get()), place, "allocating a protection domain"), {verbs_.get()});
  ibv_device_attr limits{};
  if (const int code = verbs_->query_device(context_.get(), &limits); code != 0)
    throw call_error(place, "querying the device", errno_of(code));
  reads_ = std::clamp(limits.max_qp_init_rd_atom, 1, most_reads);
  reads_served_ = std::clamp(limits.max_qp_rd_atom, 1, most_reads);
  const Domains domains{domain_.get()};
  if (!exposure_.memory.empty())
    memory_ =
        register_region(*verbs_, domains, exposure_.memory.data(), exposure_.memory.size(), Access::window);
  counters_ = register_region(*verbs_, domains, exposure_.counters.data(), exposure_.counters.size(),
                              Access::remote_write);
  served_.emplace(*verbs_, context_.get(), domain_.get(), place, exposure_, limits.max_cqe);
}

QueuePairSetting WindowAccess::setting(Rank peer) const {
  QueuePairSetting setting = setting_;
  setting.place.peer = peer;
  setting.domain = domain_.get();
  return setting;
}

RemoteAccess::Bytes WindowAccess::answer(Rank from, std::span<const std::byte> question) {
  WindowQuestion asked;
  if (question.size() != sizeof asked)
    throw Error(ErrorCode::mismatch, "a rank runs another version of tutti", {from});
  std::memcpy(&asked, question.data(), sizeof asked);
  QueuePairSetting its = setting(from);
  its.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  its.reads_served = reads_served_;
  WindowAnswer mine;
  served_->serve(its, asked, mine);
  mine.memory = address_of(exposure_.memory.data());
  mine.counters = address_of(exposure_.counters.data());
  mine.memory_key = memory_ ? memory_->remote_key(0) : 0;
  mine.counters_key = counters_->remote_key(0);
  mine.reads = static_cast<std::uint32_t>(reads_served_);
  const auto bytes = std::as_bytes(std::span(&mine, 1));
  return {bytes.begin(), bytes.end()};
}

// What befalls a queue pair fails its work requests.
void WindowAccess::check(Rank peer) {
  const auto now = coarse_now();
  if (!events_->loss() && now - looked_ >= look_interval) {
    looked_ = now;
    while (events_->take()) {
    }
  }
  if (events_->loss()) throw event_error(setting(peer).place, *events_->loss());
}

std::unique_ptr<RemoteMemory> WindowAccess::reach(Rank target, Ask ask) {
  return std::make_unique<WindowMemory>(*this, target, std::move(ask));
}

}  // namespace tutti::transport::verbs
