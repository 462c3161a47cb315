// What a window takes from its communicator.
#include <fmt/format.h>
#include <sched.h>

#include "communicator/impl.hpp"
#include "transport/fail_together.hpp"
#include "window/state.hpp"

namespace tutti {

namespace {

using detail::Impl;

// Zeroed memory for counters; memory of peers on this host where that is used at all.
std::shared_ptr<std::byte> allocate_counters(const Impl& impl, bool shared, std::size_t bytes) {
  if (!shared) {
    auto words = std::make_shared<std::vector<std::uint64_t>>(bytes / sizeof(std::uint64_t));
    return {words, reinterpret_cast<std::byte*>(words->data())};
  }
  auto region = std::make_shared<detail::Region>();
  region->data = impl.shm->direct().allocate(bytes);
  region->memory = impl.direct_handle;
  return {region, region->data};
}

void check_window(std::span<std::byte> memory, const WindowOptions& options) {
  if (options.notifications < 1 || options.notifications > max_notifications)
    throw Error(ErrorCode::invalid_argument, "WindowOptions::notifications is " +
                                                 std::to_string(options.notifications) +
                                                 "; it must be 1 to " + std::to_string(max_notifications));
  if (memory.data() == nullptr && !memory.empty())
    throw Error(ErrorCode::invalid_argument, "the memory given to a window is null, but not of 0 bytes");
  if (!memory.empty() && owner_of(memory.data()) == Owner::device)
    throw Error(ErrorCode::invalid_argument,
                "windows are of host memory, and this is memory of a CUDA device");
}

// The kernel takes a dead process's memory from it first, and closes its connections last. Who reads that
// memory in between, and throws, would be the first to leave: the others took it for the cause.
std::function<void(Rank)> announcer_of_ends(const Impl& impl) {
  return [watch = impl.watch, group = impl.group.communicator, world = impl.group.world,
          me = impl.group.rank](Rank rank) {
    for (const Deadline deadline(std::chrono::milliseconds(300)); !deadline.passed(); ::sched_yield()) {
      watch->poll();
      if (watch->gone(world[static_cast<std::size_t>(rank)], group))
        return;  // all hear that; or it left in order
    }
    const auto name = [&](Rank r) { return detail::named(r, world[static_cast<std::size_t>(r)]); };
    const Error why(ErrorCode::peer_lost,
                    fmt::format("{} died, as {} found; make a new communicator without it to go on",
                                name(rank), name(me)),
                    {rank});
    watch->session().announce_failure(group, why);
  };
}

detail::WindowSetting setting_of(Impl& impl, std::span<std::byte> memory, const WindowOptions& options) {
  impl.ensure_usable();
  // What follows is sends and receives. Who calls something else learns of that here, not at its deadline.
  impl.run({.operation = Operation::barrier, .within = Within::window});
  const bool shared = impl.options.transport.empty() || impl.options.transport == "shm";
  detail::WindowSetting setting;
  setting.options = options;
  setting.memory = memory;
  setting.regions = impl.regions_of(memory);
  setting.group = impl.group;
  setting.number = impl.next_child(-1);
  if (shared) setting.shm = impl.shm.get();
  setting.network = impl.verbs.get();
  setting.why_no_network = [&impl](Rank peer) {
    return impl.options.transport == "tcp" ? "transport tcp is forced" : impl.why_no_verbs.to(peer);
  };
  setting.listener = [&impl] { return impl.data_listener(); };
  setting.secret = impl.watch->session().secret();
  setting.congestion = impl.options.tcp_congestion;
  setting.group.all_gather = [&impl](std::span<const std::byte> mine) { return impl.exchange(mine); };
  transport::do_together(setting.group, [&] {
    check_window(memory, options);
    setting.exposed = std::make_shared<const detail::ExposedMemory>(memory);
    setting.counters =
        allocate_counters(impl, shared, detail::Counters::bytes_for(options.notifications, impl.group.size));
  });
  // What is asked later must do without the communicator: another thread may use it.
  setting.over = [alive = std::weak_ptr(impl.direct_handle)] { return alive.expired(); };
  setting.check = [owner = &impl, watch = impl.watch] {
    watch->poll();
    if (owner->abort_requested.load(std::memory_order_acquire)) owner->ensure_usable();
    if (const auto abort = watch->abort(owner->group.communicator))
      throw Error(abort->code, abort->text, abort->ranks);
  };
  setting.move_queued = &detail::advance_queued;
  setting.ended = announcer_of_ends(impl);
  setting.gone = [watch = impl.watch, world = impl.group.world, communicator = impl.group.communicator](
                     Rank rank) { return watch->gone(world[static_cast<std::size_t>(rank)], communicator); };
  return setting;
}

// Others may have made theirs when this rank is refused by an abort, or has not the memory for their last
// answers. Ranks that are threads may notify it before they hear of that: where they write stays as long as
// the communicator.
std::shared_ptr<detail::WindowState> make_state(Impl& impl, std::span<std::byte> memory,
                                                const WindowOptions& options) {
  detail::WindowSetting setting = impl.with_others([&] { return setting_of(impl, memory, options); });
  auto counters = setting.counters;
  const auto keep_counters = [&] {
    if (impl.unusable.load(std::memory_order_acquire)) impl.left_counters.push_back(std::move(counters));
  };
  try {
    return impl.with_others([&] {
      std::erase_if(impl.windows, [](const auto& one) { return one.expired(); });
      auto& place = impl.windows.emplace_back();
      auto state = std::make_shared<detail::WindowState>(std::move(setting));
      place = state;
      return state;
    });
  } catch (const Error& error) {
    keep_counters();
    // What others fail with has another code here. Windows outlive a failure, and would wait for this rank.
    if (impl.failed && error.code() == ErrorCode::system) impl.abort(impl.failed_text);
    throw;
  } catch (...) {
    keep_counters();
    throw;
  }
}

}  // namespace

// Their counters, and memory of `allocate`, go with the communicator. What peers have sent by then may still
// come, whatever they have heard.
void detail::Impl::end_windows() noexcept {
  for (const auto& one : windows)
    if (const auto window = one.lock()) window->stop_serving();
}

Window::Window(Communicator& communicator, std::span<std::byte> memory, const WindowOptions& options)
    : Window(make_state(*communicator.impl_, memory, options)) {}

}  // namespace tutti
