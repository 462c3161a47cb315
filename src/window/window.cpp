#include <tutti/window.hpp>

#include <utility>

#include "window/state.hpp"

namespace tutti {

using detail::WindowState;
using Direction = detail::WindowState::Direction;

namespace {

// A default Transfer, and one whose window is gone, have nothing to wait for.
template <class Do>
void with(const std::weak_ptr<WindowState>& window, Do action) {
  if (const auto state = window.lock()) action(*state);
}

}  // namespace

void Transfer::wait() {
  with(window_, [this](WindowState& state) { state.wait(*this, std::nullopt); });
}
void Transfer::wait(std::chrono::milliseconds timeout) {
  with(window_, [&](WindowState& state) { state.wait(*this, timeout); });
}
bool Transfer::test() {
  bool done = true;
  with(window_, [&](WindowState& state) { done = state.test(*this); });
  return done;
}

Window::Window(std::shared_ptr<WindowState> state) : state_(std::move(state)) {}
Window::Window() noexcept = default;
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

Rank Window::rank() const noexcept { return state_->group().rank; }
int Window::size() const noexcept { return state_->group().size; }
std::size_t Window::bytes(Rank rank) const { return std::as_const(*state_).peer(rank).bytes; }
std::string Window::path(Rank target) const { return std::as_const(*state_).peer(target).memory->explain(); }

Transfer Window::put(Rank target, const Block& block, const TransferOptions& options) {
  return state_->move(Direction::put, target, block, options);
}
Transfer Window::get(Rank target, const Block& block, const TransferOptions& options) {
  return state_->move(Direction::get, target, block, options);
}
Transfer Window::notify(Rank target, std::uint32_t id) { return state_->notify(target, id); }

Batch Window::prepare_put(Rank target, std::span<const Block> blocks) {
  return state_->prepare(Direction::put, target, blocks);
}
Batch Window::prepare_get(Rank target, std::span<const Block> blocks) {
  return state_->prepare(Direction::get, target, blocks);
}
Transfer Window::post(const Batch& batch, const TransferOptions& options) {
  return state_->post(batch, options);
}

std::uint64_t Window::fetch_add(Rank target, std::size_t offset, std::uint64_t value) {
  return state_->atomic(target, offset, [&](transport::RemoteMemory& way, std::uint64_t* before) {
    way.fetch_add(offset, value, before);
  });
}
std::uint64_t Window::compare_swap(Rank target, std::size_t offset, std::uint64_t expected,
                                   std::uint64_t desired) {
  return state_->atomic(target, offset, [&](transport::RemoteMemory& way, std::uint64_t* before) {
    way.compare_swap(offset, expected, desired, before);
  });
}

void Window::flush(Rank target) { state_->flush(target); }
void Window::flush() { state_->flush(); }

void Window::wait_notification(std::uint32_t id, std::uint64_t count, Rank from,
                               std::optional<std::chrono::milliseconds> timeout) {
  state_->wait_notification(id, count, from, timeout);
}
bool Window::test_notification(std::uint32_t id, std::uint64_t count, Rank from) {
  return state_->test_notification(id, count, from);
}

}  // namespace tutti
