#include "transport/verbs/served_pairs.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <thread>

#include "base/timespec.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int signals_a_source = 64;
constexpr int returned_at_once = signals_a_source / 2;
constexpr int sends_a_source = 4;  // totals under way; two at most are
constexpr int completions_a_source = signals_a_source + sends_a_source;
constexpr int most_sources = 64;  // with receives; 280 KB of completions

int sources_of(const Exposure& exposure, int max_completions) {
  return std::clamp(max_completions / completions_a_source, 1,
                    std::min(std::max(exposure.size - 1, 1), most_sources));
}

}  // namespace

ServedPairs::ServedPairs(Verbs& verbs, ibv_context* context, ibv_pd* domain, const Place& place,
                         const Exposure& exposure, int max_completions)
    : verbs_(verbs),
      exposure_(exposure),
      place_(place),
      most_(static_cast<std::size_t>(sources_of(exposure, max_completions))),
      events_(verbs, context, place),
      completions_(
          made(verbs.create_cq(context, static_cast<int>(most_) * completions_a_source, events_.channel()),
               place, "creating a completion queue"),
          {&verbs}),
      returned_(verbs, Domains{domain}, most_ * sizeof(std::uint64_t), Access::local_read) {}

void ServedPairs::serve(QueuePairSetting setting, const WindowQuestion& question, WindowAnswer& answer) {
  setting.completions = completions_.get();
  setting.sends = sends_a_source;
  setting.receives = signals_a_source;
  setting.max_inline = sizeof(std::uint64_t);
  Source source{
      .setting = setting, .pair = std::make_unique<QueuePair>(verbs_, setting), .question = question};
  source.pair->connect_patiently(question.address);  // who takes signals of others does not wait for it
  const std::scoped_lock lock(mutex_);
  const auto earlier = std::ranges::find_if(
      sources_, [&](const auto& one) { return one.second.setting.place.peer == setting.place.peer; });
  std::optional<std::uint32_t> replaced;
  if (earlier != sources_.end()) {
    replaced = earlier->first;
    source.returned = earlier->second.returned;
  } else if (sources_.size() < most_) {
    source.returned = reinterpret_cast<std::uint64_t*>(returned_.data()) + sources_.size();
  }
  if (source.returned != nullptr) {
    for (int posted = 0; posted < signals_a_source; posted += returned_at_once) post_receives(source);
    *source.returned = 0;
    answer.signals = signals_a_source;
  }
  answer.address = source.pair->address();
  const std::uint32_t number = source.pair->number();
  sources_.emplace(number, std::move(source));
  if (replaced) sources_.erase(*replaced);
}

// They hold no bytes: an immediate has none.
void ServedPairs::post_receives(const Source& source) {
  std::array<ibv_recv_wr, returned_at_once> requests{};
  for (std::size_t k = 0; k + 1 < requests.size(); ++k) requests[k].next = &requests[k + 1];
  ibv_recv_wr* bad = nullptr;
  if (const int code = verbs_.post_recv(source.pair->handle(), requests.data(), &bad); code != 0)
    throw call_error(source.setting.place, "posting receives", errno_of(code));
}

bool ServedPairs::take() {
  std::array<ibv_wc, 16> completions;
  const int count = verbs_.poll_cq(completions_.get(), completions.size(), completions.data());
  if (count < 0) throw call_error(place_, "polling the completion queue", EIO);
  if (count == 0) return false;
  events_.taken();
  const std::scoped_lock lock(mutex_);
  for (const auto& one : std::span(completions).first(static_cast<std::size_t>(count))) take(one);
  return true;
}

void ServedPairs::take(const ibv_wc& completion) {
  const auto found = sources_.find(completion.qp_num);
  if (found == sources_.end()) return;
  Source& source = found->second;
  if (completion.status != IBV_WC_SUCCESS) {
    source.failed = true;  // it is gone, or learns of it by its next transfer; other sources go on
    return;
  }
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    source.pair->completed(completion.wr_id);
  } else {
    const std::uint32_t id = ntohl(completion.imm_data);
    const auto words = exposure_.counters.size() / sizeof(std::uint64_t);
    if (id < words / static_cast<std::size_t>(exposure_.size))
      exposure_.signalled(id, source.setting.place.peer);
    ++source.taken;
  }
  if (source.returned == nullptr || source.failed) return;
  if (source.taken - *source.returned >= returned_at_once && source.pair->room() > 0) give_back(source);
}

// Devices refuse posts to a pair whose source has gone. One that lives goes on without receives.
void ServedPairs::give_back(Source& source) {
  try {
    post_back(source);
  } catch (const Error&) {
    source.failed = true;
  }
}

void ServedPairs::post_back(Source& source) {
  post_receives(source);
  *source.returned += returned_at_once;
  Write write;
  write.add({address_of(source.returned), sizeof *source.returned, returned_.region()->local_key(0)});
  write.to = source.question.returned;
  write.remote_key = source.question.returned_key;
  write.inlined = source.pair->max_inline() >= static_cast<int>(sizeof *source.returned);
  write.signalled = true;
  source.pair->add(write);
  source.pair->ring();
}

void ServedPairs::wait(std::chrono::microseconds longest) {
  events_.arm(completions_.get());
  if (take()) return;
  pollfd one{events_.fd(), POLLIN, 0};
  const timespec limit = timespec_of(longest);
  if (::ppoll(&one, 1, &limit, nullptr) <= 0) return;
  if ((one.revents & POLLIN) == 0) return std::this_thread::sleep_for(longest);  // the device is gone
  events_.clear(completions_.get());
}

}  // namespace tutti::transport::verbs
