// Transfers from their arguments to their start.
#include "window/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bootstrap/frame.hpp"

namespace tutti::detail {

namespace {

const char* name(WindowState::Direction direction) {
  return direction == WindowState::Direction::put ? "put" : "get";
}

}  // namespace

WindowState::WindowState(WindowSetting setting)
    : setting_(std::move(setting)),
      counters_(setting_.counters.get(), setting_.options.notifications, setting_.group.size) {
  peers_.emplace(setting_, counters_);
  setting_.group.all_gather = nullptr;
}

Window WindowState::make_window(WindowSetting setting) {
  return Window(std::make_shared<WindowState>(std::move(setting)));
}

WindowPeer& WindowState::peer(Rank rank) {
  return const_cast<WindowPeer&>(static_cast<const WindowState&>(*this).peer(rank));
}

const WindowPeer& WindowState::peer(Rank rank) const {
  if (rank < 0 || rank >= setting_.group.size)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: there is no rank {}; its ranks are 0 to {}",
                                                         title(), rank, setting_.group.size - 1));
  return peers_->all[static_cast<std::size_t>(rank)];
}

std::string WindowState::title() const {
  return fmt::format("window \"{}\" on rank {}", setting_.options.name, setting_.group.rank);
}

std::string WindowState::describe(const Subject& subject) const {
  if (subject.bytes == 0) return fmt::format("{}: {}, rank {}", title(), subject.verb, subject.target);
  return fmt::format("{}: {} of {} bytes, rank {} at offset {}", title(), subject.verb, subject.bytes,
                     subject.target, subject.offset);
}

void WindowState::check_number(std::uint32_t id) const {
  if (id < counters_.numbers()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: there is no notification {}; WindowOptions::notifications is {}", title(), id,
                          counters_.numbers()));
}

void WindowState::check_block(const Subject& subject, const Block& block) const {
  const auto check = [&](std::size_t offset, std::size_t held, Rank owner) {
    if (offset <= held && block.bytes <= held - offset) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} (local offset {}): it ends beyond the {} bytes of rank {}", describe(subject),
                            block.local, held, owner));
  };
  check(block.remote, peer(subject.target).bytes, subject.target);
  check(block.local, setting_.memory.size(), setting_.group.rank);
}

void WindowState::check_apart(const Subject& subject, const Block& block) const {
  if (subject.target != setting_.group.rank || block.local == block.remote) return;
  const std::size_t apart = std::max(block.local, block.remote) - std::min(block.local, block.remote);
  if (apart >= block.bytes) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} (local offset {}): the target is this rank, where the {} bytes to be read and "
                          "those to be written overlap",
                          describe(subject), block.local, block.bytes));
}

void WindowState::raise(const Subject& subject, const Error& why) const {
  throw bootstrap::with_context(why, describe(subject) + ": ", {subject.target});
}

Transfer WindowState::start(const Subject& subject, Direction direction, std::span<const Block> blocks,
                            const TransferOptions& options) {
  std::optional<Deadline> deadline;
  if (options.deadline) deadline.emplace(*options.deadline);
  if (options.notify) check_number(*options.notify);
  check_target(subject, Clock::duration::zero());
  Transfer transfer;
  transfer.window_ = weak_from_this();
  transfer.target_ = subject.target;
  transfer.verb_ = subject.verb;
  transfer.offset_ = subject.offset;
  transfer.bytes_ = subject.bytes;
  WindowPeer& to = peer(subject.target);
  mark_busy(subject.target);  // first: there may be no memory for it
  use(subject, *to.memory, [&] {
    const std::uint64_t before = to.memory->started();
    if (!blocks.empty()) direction == Direction::put ? to.memory->put(blocks) : to.memory->get(blocks);
    if (options.notify) to.memory->notify(*options.notify);
    to.memory->submit();
    if (to.memory->started() == before) return;  // nothing to wait for
    transfer.number_ = to.memory->started();
    if (!deadline) return;
    to.memory->done();  // nobody may ever wait for earlier ones
    to.forget_timed();
    to.timed.push_back({transfer.number_, *deadline, describe(subject)});
  });
  return transfer;
}

Transfer WindowState::move(Direction direction, Rank target, const Block& block,
                           const TransferOptions& options) {
  const Subject subject{name(direction), target, block.remote, block.bytes};
  check_block(subject, block);
  check_apart(subject, block);
  return start(subject, direction, {&block, block.bytes == 0 ? 0U : 1U}, options);
}

Transfer WindowState::notify(Rank target, std::uint32_t id) {
  static_cast<void>(peer(target));
  return start({"notification", target}, Direction::put, {}, {.notify = id});
}

Batch WindowState::prepare(Direction direction, Rank target, std::span<const Block> blocks) {
  std::vector<Block> joined;
  Batch batch;
  static_cast<void>(peer(target));
  for (const Block& block : blocks) {
    check_block({name(direction), target, block.remote, block.bytes}, block);
    if (block.bytes == 0) continue;
    batch.bytes_ += block.bytes;
    if (!joined.empty() && joined.back().local + joined.back().bytes == block.local &&
        joined.back().remote + joined.back().bytes == block.remote)
      joined.back().bytes += block.bytes;
    else
      joined.push_back(block);
  }
  // Blocks that continue each other may overlap together where each does not.
  for (const Block& block : joined) check_apart({name(direction), target, block.remote, block.bytes}, block);
  batch.blocks_ = std::make_shared<const std::vector<Block>>(std::move(joined));
  batch.window_ = weak_from_this();
  batch.target_ = target;
  batch.is_put_ = direction == Direction::put;
  return batch;
}

Transfer WindowState::post(const Batch& batch, const TransferOptions& options) {
  if (batch.window_.lock().get() != this)
    throw Error(ErrorCode::invalid_argument, title() + ": the batch was prepared for another window");
  const auto direction = batch.is_put_ ? Direction::put : Direction::get;
  const std::size_t offset = batch.blocks_->empty() ? 0 : batch.blocks_->front().remote;
  return start({name(direction), batch.target_, offset, batch.bytes_}, direction, *batch.blocks_, options);
}

std::uint64_t WindowState::atomic(
    Rank target, std::size_t offset,
    const std::function<void(transport::RemoteMemory&, std::uint64_t*)>& start) {
  constexpr std::size_t word = sizeof(std::uint64_t);
  WindowPeer& to = peer(target);
  const Subject subject{"atomic", target, offset, word};
  if (to.bytes < word || offset > to.bytes - word)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: that rank has {} bytes", describe(subject), to.bytes));
  if ((offset + to.misalignment) % word != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: not a multiple of 8{}", describe(subject),
                            to.misalignment == 0 ? "" : " (that rank's memory does not begin at one)"));
  check_target(subject, Clock::duration::zero());
  transport::RemoteMemory& way = to.memory->has_atomics() ? *to.memory : *to.owner;
  // A result may come after its wait has failed, so its place is not on the stack.
  use(subject, way, [&] { start(way, to.before.get()), way.submit(); });
  std::array one{Awaited{subject, &way, way.started(), Awaited::Kind::atomic}};
  wait_until(one, Limit(std::nullopt, setting_.group.timeout));
  progress();  // whoever is to change the word may wait for that
  return *to.before;
}

}  // namespace tutti::detail
