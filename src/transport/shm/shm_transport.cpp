#include "transport/shm/shm_transport.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sodium.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/fault_in.hpp"
#include "base/futex.hpp"
#include "base/processors.hpp"
#include "topology/cache.hpp"
#include "topology/host.hpp"
#include "transport/all_gather.hpp"

namespace tutti::transport::shm {

namespace {

// Counted from 1.
std::uint32_t this_processor() { return static_cast<std::uint32_t>(::sched_getcpu() + 1); }

constexpr std::uint64_t probe_value = 0x7475747469ULL;
const std::uint64_t probe_word = probe_value;

// What ranks tell each other before they share memory.
struct Introduction {
  topology::HostId host;
  Key key;  // of the arena this rank would make, and of its bell
  pid_t pid;
  std::uint64_t probe;  // address of a word that peers try to read and write
  std::uint64_t last_cache;
};

bool can_read(const Introduction& peer) {
  std::uint64_t value = 0;
  iovec mine{&value, sizeof value};
  iovec theirs{reinterpret_cast<void*>(peer.probe), sizeof value};  // NOLINT(performance-no-int-to-ptr)
  return ::process_vm_readv(peer.pid, &mine, 1, &theirs, 1, 0) == sizeof value && value == probe_value;
}

// That word is constant, which who may write is told in place of being refused.
bool can_write(const Introduction& peer) {
  std::uint64_t value = probe_value;
  const iovec mine{&value, sizeof value};
  const iovec theirs{reinterpret_cast<void*>(peer.probe), sizeof value};  // NOLINT(performance-no-int-to-ptr)
  const ssize_t written = ::process_vm_writev(peer.pid, &mine, 1, &theirs, 1, 0);
  return written == sizeof value || (written < 0 && errno == EFAULT);
}

// Who has this process's memory, but not its copy of the library, has no part in what that shares.
void require_one_copy(const std::vector<Introduction>& all, const std::vector<Rank>& locals,
                      const Introduction& mine) {
  for (const Rank r : locals) {
    const Introduction& peer = all[static_cast<std::size_t>(r)];
    if (peer.pid != mine.pid || peer.probe == mine.probe || !can_read(peer)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("rank {} is in this process, but uses another copy of the library (dlopen(3) of "
                            "two files with RTLD_LOCAL, or one copy linked into each of two libraries); give "
                            "all ranks of a process the same one",
                            r),
                {r});
  }
}

// Whether every rank of this host may read and write every other's memory. Collective over the group.
bool all_can_attach(const Group& group, const std::vector<Introduction>& all,
                    const std::vector<Rank>& locals) {
  const auto mine = static_cast<std::byte>(std::ranges::all_of(locals, [&](Rank r) {
    const Introduction& peer = all[static_cast<std::size_t>(r)];
    return can_read(peer) && can_write(peer);
  }));
  const auto answers = all_gather(group, mine);
  return std::ranges::all_of(locals,
                             [&](Rank r) { return answers[static_cast<std::size_t>(r)] != std::byte{0}; });
}

// Of this host, but this one.
Processes other_processes(const std::vector<Introduction>& all, const std::vector<Rank>& locals) {
  Processes others;
  for (const Rank r : locals) others[all[static_cast<std::size_t>(r)].pid].push_back(r);
  others.erase(::getpid());
  return others;
}

// Ranks a host, as host_size() says.
int consecutive(const std::vector<Introduction>& all) {
  std::size_t size = 1;
  while (size < all.size() && all[size].host == all[0].host) ++size;
  for (std::size_t r = size; r < all.size(); ++r) {
    const bool begins = r % size == 0;
    const auto same = [&](std::size_t other) { return all[r].host == all[other].host; };
    if (begins == same(r - 1)) return 0;
    for (std::size_t earlier = 0; begins && earlier < r; earlier += size)
      if (same(earlier)) return 0;
  }
  return static_cast<int>(size);
}

// So many ranks to either side are likely to be used: all of 16. The rings of all pairs of 192 ranks would be
// 7 GB a communicator, those of these pairs are 0.4 GB.
constexpr int near_to_either_side = 8;
bool are_near(Rank a, Rank b, int ranks) {
  const int apart = std::abs(a - b);
  return std::min(apart, ranks - apart) <= near_to_either_side;
}

constexpr int fifo_numbers = stream_channel + 1;  // 0 to stream_channel
// Of the ends of one FIFO with one rank, in `ends_`.
std::size_t place_of(Rank local, int channel) {
  return static_cast<std::size_t>(local) * fifo_numbers + static_cast<std::size_t>(channel);
}

}  // namespace

ShmTransport::ShmTransport(const Group& group, bool expect_use)
    : local_of_(static_cast<std::size_t>(group.size), -1) {
  if (sodium_init() < 0) throw Error(ErrorCode::system, "libsodium cannot start");
  static const std::uint64_t last_cache = topology::last_cache_bytes();
  Introduction mine{
      topology::this_host(), {}, ::getpid(), reinterpret_cast<std::uint64_t>(&probe_word), last_cache};
  randombytes_buf(mine.key.data(), mine.key.size());
  last_cache_ = last_cache;
  std::vector<Introduction> all;
  std::vector<std::string> cpus;  // that ranks of this host may run on
  for (auto& said : all_gather(group, mine, bits_of(allowed_processors()))) {
    all.push_back(said.value);
    if (said.value.host != mine.host) continue;
    cpus.push_back(std::move(said.text));
    last_cache_ = std::min<std::size_t>(last_cache_, said.value.last_cache);
  }
  cpus_ = count_all(cpus);

  std::vector<pid_t> pids;
  std::vector<Key> keys;
  for (Rank r = 0; r < group.size; ++r) {
    const Introduction& peer = all[static_cast<std::size_t>(r)];
    if (peer.host != mine.host) continue;
    if (r == group.rank) local_rank_ = static_cast<int>(locals_.size());
    local_of_[static_cast<std::size_t>(r)] = static_cast<int>(locals_.size());
    locals_.push_back(r);
    pids.push_back(peer.pid);
    keys.push_back(peer.key);
  }
  std::map<topology::HostId, int> numbers;
  for (const Introduction& peer : all) numbers.try_emplace(peer.host, static_cast<int>(numbers.size()));
  host_ = numbers.at(mine.host);
  hosts_ = static_cast<int>(numbers.size());
  beside_.resize(local_of_.size());
  host_size_ = consecutive(all);
  const int n = static_cast<int>(locals_.size());
  const Introduction& leader = all[static_cast<std::size_t>(locals_[0])];

  std::optional<Listener> listener;
  if (local_rank_ == 0) {
    arena_ = Arena::create(n);
    publish_arena(leader.key, arena_);
    if (n > 1) listener.emplace(leader.key);
  }
  // All take part: once it is over, all leaders listen, and have published what they hold.
  const bool can_attach = all_can_attach(group, all, locals_);
  require_one_copy(all, locals_, mine);
  if (listener) {
    serve_arena(*listener, *arena_, other_processes(all, locals_), group.timeout, group.check_members);
  } else if (local_rank_ != 0) {
    if (leader.pid == mine.pid) require_arena(leader.key, locals_[0], group.check_members);
    arena_ = attach_arena(leader.key, n, locals_[0], group.timeout, group.check_members);
  }
  wakes_ = std::make_unique<Wakes>(arena_, std::move(keys), mine.key);
  direct_ = std::make_unique<DirectMemory>(arena_, local_rank_, std::move(pids), locals_, can_attach);
  if (n > cpus_) times_.emplace(*arena_, local_rank_);
  ends_.resize(static_cast<std::size_t>(n) * fifo_numbers);
  if (expect_use) populate();
}

// Makes what the usual schedules use, and faults it in, so that a first call is not dearer than a later one.
void ShmTransport::populate() {
  const int n = static_cast<int>(locals_.size());
  fault_in(&arena_->control(local_rank_), Layout::control_bytes);
  if (n == 1) return;
  const auto fault_in_channel = [&](Rank writer, Rank reader, int channel) {
    const Layout& layout = arena_->layout();
    fault_in(arena_->at(layout.offset_of(writer, reader, channel)),
             layout.used_bytes(writer, reader, channel));
  };
  // Two ranks have no use for multicast, and it leads to no other host; more use it for the second phase, and
  // for broadcasts, mostly of rank 0.
  const bool multicasts = n > 2 && all_local();
  const auto make_multicast = [&](Rank writer, int channel) {
    if (!multicasts) return;
    fault_in_channel(writer, writer, channel);
    if (writer == local_rank_)
      multicast_sender(channel);
    else
      multicast_receiver(writer, channel);
  };
  make_multicast(0, lone_channel);
  for (Rank r = 0; r < n; ++r)
    for (const int channel : {0, 1, stream_channel}) {
      if (channel != stream_channel) make_multicast(r, channel);
      if (r == local_rank_ || (n > 2 && channel == 1) || !are_near(r, local_rank_, n)) continue;
      fault_in_channel(local_rank_, r, channel);
      fault_in_channel(r, local_rank_, channel);
      const Rank peer = locals_[static_cast<std::size_t>(r)];
      sender(peer, channel);
      receiver(peer, channel);
    }
}

std::string ShmTransport::explain(Rank peer) const {
  if (!reaches(peer)) return "shm: not on this host (or in another network or process-id namespace)";
  return "shared memory (memfd)" + std::string(direct_->same_process() ? ", same process" : "") +
         (direct_->can_attach() ? ", cross-memory attach permitted" : ", cross-memory attach not permitted");
}

ShmTransport::Ends& ShmTransport::ends(int local, int channel) {
  assert(channel >= 0 && channel < fifo_numbers && local >= 0);
  return ends_[place_of(local, channel)];
}

Sender& ShmTransport::sender(Rank peer, int channel) {
  const int local = local_of(peer);
  auto& end = ends(local, channel).sender;
  if (end) return *end;
  end = std::make_unique<MessageSender>(*wakes_, FifoMemory(*arena_, local_rank_, local, channel), local,
                                        traffic_, *direct_, times_ ? &*times_ : nullptr);
  return *end;
}

Receiver& ShmTransport::receiver(Rank peer, int channel) {
  const int local = local_of(peer);
  auto& end = ends(local, channel).receiver;
  if (end) return *end;
  end = std::make_unique<MessageReceiver>(*wakes_, FifoMemory(*arena_, local, local_rank_, channel), local,
                                          local_rank_, traffic_, *direct_);
  return *end;
}

Sender* ShmTransport::multicast_sender(int channel) {
  if (!all_local() || locals_.size() < 2) return nullptr;
  auto& end = ends(local_rank_, channel).sender;
  if (!end) {
    std::vector<Rank> readers;
    for (Rank r = 0; r < static_cast<Rank>(locals_.size()); ++r)
      if (r != local_rank_) readers.push_back(r);
    end = std::make_unique<ShmSender>(*wakes_, FifoMemory(*arena_, local_rank_, local_rank_, channel),
                                      std::move(readers), traffic_);
  }
  return end.get();
}

Receiver* ShmTransport::multicast_receiver(Rank from, int channel) {
  if (!all_local() || locals_.size() < 2) return nullptr;
  auto& end = ends(from, channel).multicast_receiver;
  if (!end)
    end = std::make_unique<ShmReceiver>(*wakes_, FifoMemory(*arena_, from, from, channel), from, local_rank_,
                                        traffic_);
  return end.get();
}

void ShmTransport::prepare_wait() {
  if (waiting_) return;
  wakes_->settle();
  waiting_ = true;
  arena_->control(local_rank_).sleeping.store(on_word);
  arena_->header().sleepers.fetch_add(1);
}

void ShmTransport::cancel_wait() {
  if (!waiting_) return;
  waiting_ = false;
  arena_->header().sleepers.fetch_sub(1);
  arena_->control(local_rank_).sleeping.store(awake);
}

void ShmTransport::wait(std::chrono::microseconds longest) {
  prepare_wait();
  futex_wait(arena_->control(local_rank_).sleeping, on_word, longest);
  cancel_wait();
}

// Who still found `on_word` has sent something before, and woken nobody.
bool ShmTransport::add_waits(std::vector<pollfd>& waits) {
  waits.push_back({wakes_->bell().fd(), POLLIN, 0});
  std::uint32_t before = on_word;
  return arena_->control(local_rank_).sleeping.compare_exchange_strong(before, in_poll);
}

void ShmTransport::end_wait(std::span<const pollfd> waits) {
  cancel_wait();
  if (waits.front().revents != 0) wakes_->bell().clear();
}

void ShmTransport::leave_processor(std::chrono::nanoseconds worked) {
  const std::uint32_t here = this_processor();
  Processor& left = arena_->header().by_processor[here % processors];
  const auto added = static_cast<std::uint64_t>(worked.count());
  worked_when_left_ = left.worked.fetch_add(added, std::memory_order_relaxed) + added;
  left_ = &left;
  arena_->control(local_rank_).away.store(1, std::memory_order_relaxed);
  if (here == processor_) return;
  processor_ = here;
  arena_->control(local_rank_).processor.store(here, std::memory_order_relaxed);
  arena_->header().moves.fetch_add(1, std::memory_order_release);
}

bool ShmTransport::ranks_used(std::chrono::nanoseconds away) const {
  const std::uint64_t worked = left_->worked.load(std::memory_order_relaxed) - worked_when_left_;
  return worked >= static_cast<std::uint64_t>(away.count()) / 4 * 3;
}

void ShmTransport::close() noexcept {
  std::uint32_t nobody = 0;
  arena_->header().closed.compare_exchange_strong(nobody, static_cast<std::uint32_t>(local_rank_ + 1));
}

void ShmTransport::blame(ErrorCode code, std::span<const Rank> ranks) noexcept {
  Blame& mine = arena_->control(local_rank_).blame;
  const std::size_t count = std::min(ranks.size(), std::size(mine.ranks));
  for (std::size_t i = 0; i < count; ++i) mine.ranks[i].store(ranks[i], std::memory_order_relaxed);
  mine.count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  mine.code.store(1 + static_cast<std::uint32_t>(code), std::memory_order_release);
}

std::optional<ShmTransport::Closing> ShmTransport::closed_by() const {
  const std::uint32_t by = arena_->header().closed.load();
  if (by == 0) return std::nullopt;
  Closing closing{.by = locals_[by - 1], .code = {}, .at_fault = {}};
  const Blame& its = control(closing.by).blame;
  if (const std::uint32_t code = its.code.load(std::memory_order_acquire); code != 0) {
    closing.code = static_cast<ErrorCode>(code - 1);
    const auto* const ranks = std::begin(its.ranks);
    closing.at_fault.assign(ranks, ranks + its.count.load(std::memory_order_relaxed));
  }
  return closing;
}

void ShmTransport::close_buffers(std::chrono::milliseconds longest, const std::function<bool(Rank)>& gone) {
  close();
  const Deadline deadline(longest);
  for (const Rank rank : locals_)
    while (local_of(rank) != local_rank_ && control(rank).inside.load() != 0 && !gone(rank) &&
           !deadline.passed())
      ::sched_yield();
}

std::span<const std::uint8_t> ShmTransport::beside() {
  const std::uint32_t here = this_processor();
  const std::uint32_t moves = arena_->header().moves.load(std::memory_order_acquire);
  if (here == beside_of_ && moves == moves_seen_) return beside_;
  beside_of_ = here;
  moves_seen_ = moves;
  for (const Rank rank : locals_)
    beside_[static_cast<std::size_t>(rank)] = control(rank).processor.load(std::memory_order_relaxed) == here;
  beside_[static_cast<std::size_t>(locals_[static_cast<std::size_t>(local_rank_)])] = 0;
  return beside_;
}

std::span<const std::uint8_t> ShmTransport::absent() {
  const auto near = beside();
  absent_.assign(near.begin(), near.end());
  for (const Rank rank : locals_)
    if (rank != locals_[static_cast<std::size_t>(local_rank_)] &&
        control(rank).away.load(std::memory_order_relaxed) != 0)
      absent_[static_cast<std::size_t>(rank)] = 1;
  return absent_;
}

std::uint32_t ShmTransport::parts_taken() const {
  std::uint32_t parts = 0;
  for (int local = 0; local < static_cast<int>(locals_.size()); ++local)
    for (const int channel : {0, message_channel})  // blocks of an all_to_all_v, and sends
      if (const auto& sender = ends_[place_of(local, channel)].sender) parts += sender->parts_taken();
  return parts;
}

std::uint32_t ShmTransport::steps_on_others() const {
  std::uint32_t steps = 0;
  for (int local = 0; local < static_cast<int>(locals_.size()); ++local)
    steps += arena_->control(local).steps_inside.load(std::memory_order_relaxed);
  return steps;
}

Traffic ShmTransport::traffic() const {
  Traffic traffic = traffic_;
  const Layout& layout = arena_->layout();
  traffic.memory_held = direct_->held() + Layout::control_bytes;
  for (int local = 0; local < static_cast<int>(locals_.size()); ++local)
    for (int channel = 0; channel < fifo_numbers; ++channel)
      if (ends_[place_of(local, channel)].sender)
        traffic.memory_held += layout.used_bytes(local_rank_, local, channel);
  return traffic;
}

}  // namespace tutti::transport::shm
