#include <tutti/communicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "bootstrap/environment.hpp"
#include "bootstrap/frame.hpp"
#include "communicator/impl.hpp"
#include "communicator/option_limits.hpp"
#include "topology/interface.hpp"
#include "tuning/file.hpp"
#include "window/exposed.hpp"

namespace tutti {

using detail::Impl;

namespace {

void require_within(const char* option, int value, int low, int high) {
  if (value < low || value > high)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Options::{} is {}; it goes from {} to {}", option, value, low, high));
}

Options usable(Options options) {
  require_within("node_size", options.node_size, 0, most_ranks);
  require_within("tcp_streams", options.tcp_streams, 1, most_tcp_streams);
  if (options.timeout <= std::chrono::milliseconds(0))
    throw Error(ErrorCode::invalid_argument, "Options::timeout is " +
                                                 std::to_string(options.timeout.count()) +
                                                 " ms; ranks need some time to meet");
  if (!options.interface.empty()) static_cast<void>(topology::interface_address(options.interface));
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(bounded(options.timeout));
  return options;
}

std::string common_options(const Options& options) {
  return fmt::format(
      "transport \"{}\", algorithm \"{}\", node_size {}, rank_order {}, tcp_streams {}, stream_from {}",
      options.transport, options.algorithm, options.node_size, options.rank_order ? 1 : 0,
      options.tcp_streams,
      options.stream_from == static_cast<std::size_t>(-1) ? "unset" : std::to_string(options.stream_from));
}

// What every rank has to say, however long: the bootstrap takes only so much at a time.
std::vector<std::string> gather_texts(bootstrap::Session& session, std::string_view mine,
                                      std::chrono::milliseconds timeout) {
  std::vector<std::string> texts(static_cast<std::size_t>(session.size()));
  for (bool more = true; more;) {
    const std::string_view part = mine.substr(0, bootstrap::largest_contribution);
    mine.remove_prefix(part.size());
    more = false;
    const auto parts = session.all_gather(std::as_bytes(std::span(part)), timeout);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      texts[r].append(reinterpret_cast<const char*>(parts[r].data()), parts[r].size());
      more = more || parts[r].size() == bootstrap::largest_contribution;
    }
  }
  return texts;
}

// Ranks with other options would talk past each other, and so would ranks that choose by other constants: all
// take rank 0's tuning.
std::shared_ptr<const tuning::Tuning> agree(bootstrap::Session& session, Rank rank, const Options& options) {
  const std::string common = common_options(options);
  const std::string mine = common + '\n' + (rank == 0 ? tuning::text_of(options.tuning) : "");
  std::vector<std::string> options_of;
  std::string tuned;
  for (const std::string& text : gather_texts(session, mine, options.timeout)) {
    options_of.push_back(text.substr(0, text.find('\n')));
    if (options_of.size() == 1) tuned = text.substr(options_of[0].size() + 1);
  }
  for (std::size_t r = 1; r < options_of.size(); ++r) {
    if (options_of[r] == options_of[0]) continue;
    throw Error(ErrorCode::mismatch,
                "rank 0 has the options " + options_of[0] + ", rank " + std::to_string(r) + " has " +
                    options_of[r] + "; all ranks must have the same",
                {0, static_cast<Rank>(r)});
  }
  return tuned.empty() ? tuning::Tuning::defaults() : tuning::from_json(tuned, "of rank 0");
}

constexpr std::uint64_t first_communicator = 1;

// A rank that cannot make it says why; the others only see it go.
[[noreturn]] void fail_to_join(Watch& watch, const Error& error) {
  watch.poll();
  const auto of_other = watch.failure(first_communicator);
  if (of_other && error.code() == ErrorCode::peer_lost)
    throw Error(code_for_others(of_other->code), of_other->text, of_other->ranks);
  const Rank me = watch.session().rank();
  watch.session().announce_failure(
      first_communicator,
      bootstrap::with_context(error, fmt::format("rank {} could not make the communicator: ", me), {me}));
  throw Error(error);
}

std::unique_ptr<Impl> make_first(const std::shared_ptr<Watch>& watch, const Options& options) {
  auto& session = watch->session();
  const Rank rank = session.rank();
  const int size = session.size();
  auto tuned = agree(session, rank, options);
  transport::Group group;
  group.rank = rank;
  group.size = size;
  group.communicator = first_communicator;
  group.timeout = options.timeout;
  for (Rank r = 0; r < size; ++r) group.world.push_back(r);
  group.all_gather = [&session, &options](std::span<const std::byte> mine) {
    return session.all_gather(mine, options.timeout);
  };
  auto impl = std::make_unique<Impl>(watch, nullptr, std::move(group), options, std::move(tuned));
  impl->group.all_gather = nullptr;
  impl->warm_up();
  impl->membership.begin();
  return impl;
}

std::unique_ptr<Impl> make_in(std::shared_ptr<bootstrap::Session> session, const Options& options) {
  const auto watch = std::make_shared<Watch>(std::move(session));
  try {
    return make_first(watch, options);
  } catch (const Error& error) {
    fail_to_join(*watch, error);
  } catch (const std::bad_alloc&) {
    fail_to_join(*watch, detail::out_of_memory(watch->session().rank()));
  }
}

std::unique_ptr<Impl> join(const UniqueId& id, Rank rank, int size, const Options& options) {
  return make_in(bootstrap::Session::join(id, rank, size, options.timeout), options);
}

// `work`: nullptr where nothing was started.
void wait_for(detail::Pending* work, std::optional<Deadline> limit) {
  if (work == nullptr) return;
  if (work->owner != nullptr)
    work->owner->wait(*work, limit);
  else if (work->failure)
    std::rethrow_exception(work->failure);
}

}  // namespace

Communicator::Communicator(const UniqueId& id, Rank rank, int size, const Options& options)
    : impl_(join(id, rank, size, usable(options))) {}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator() noexcept = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_environment(const Options& options) {
  const Options used = usable(options);
  return Communicator(make_in(bootstrap::join_from_environment(used.interface, used.timeout), used));
}

Rank Communicator::rank() const noexcept { return impl_->group.rank; }
int Communicator::size() const noexcept { return impl_->group.size; }
Rank Communicator::local_rank() const noexcept { return impl_->shm->local_rank(); }
int Communicator::local_size() const noexcept { return static_cast<int>(impl_->shm->locals().size()); }
int Communicator::host() const noexcept { return impl_->shm->host(); }
int Communicator::hosts() const noexcept { return impl_->shm->hosts(); }

void Communicator::submit(const Call& call) {
  impl_->with_others([&] { impl_->run(call); });
}

std::optional<Communicator> Communicator::split(int color, int key) {
  auto child = impl_->with_others([&] { return impl_->split(color, key, Within::split); });
  return child ? std::optional(Communicator(std::move(child))) : std::nullopt;
}

Communicator Communicator::duplicate() {
  return Communicator(
      impl_->with_others([&] { return impl_->split(0, impl_->group.rank, Within::duplicate); }));
}

void Communicator::check() { impl_->check_others(); }

void Communicator::abort(const std::string& reason) noexcept { impl_->abort(reason); }

std::pair<std::shared_ptr<detail::Region>, void*> Communicator::allocate_bytes(std::size_t bytes) {
  auto region = impl_->make_region(Within::allocate, [&](detail::Region& made) {
    made.data = impl_->shm->direct().allocate(std::max<std::size_t>(bytes, 1));
    made.memory = impl_->direct_handle;
    if (impl_->verbs) made.devices = impl_->verbs->register_memory(made.data, bytes);
    return bytes;
  });
  void* const data = region->data;
  return {std::move(region), data};
}

Registration Communicator::register_memory(void* data, std::size_t bytes) {
  return Registration(impl_->make_region(Within::register_memory, [&](detail::Region& made) {
    if (data == nullptr || bytes == 0)
      throw Error(ErrorCode::invalid_argument, "register_memory: there is no memory (null, or 0 bytes)");
    if (owner_of(data) == Owner::device)
      throw Error(ErrorCode::invalid_argument,
                  "register_memory: this is memory of a CUDA device; tutti::Gpu::register_memory takes it");
    // Its pages are replaced, of which devices that have pinned them would not know.
    if (owner_of(data) == Owner::pinned && !impl_->shm->direct().same_process())
      throw Error(
          ErrorCode::invalid_argument,
          "register_memory: CUDA has pinned this memory (cudaMallocHost, cudaHostRegister), and a device "
          "would go on with its old pages; let CUDA pin it afterwards, or take memory from allocate");
    // Threads of one process reach each other's memory as it is.
    if (!impl_->shm->direct().same_process()) {
      if (detail::ExposedMemory::overlaps({static_cast<const std::byte*>(data), bytes}))
        throw Error(ErrorCode::invalid_argument,
                    "register_memory: a window is made of this memory, and what others put into it would be "
                    "lost while its pages are replaced; register it before the window is made");
      impl_->shm->direct().adopt(static_cast<std::byte*>(data), bytes);
      made.data = static_cast<std::byte*>(data);
      made.memory = impl_->direct_handle;
    }
    if (impl_->verbs) made.devices = impl_->verbs->register_memory(static_cast<std::byte*>(data), bytes);
    return bytes;
  }));
}

void Communicator::use(const Schedule& schedule) {
  impl_->ensure_usable();
  impl_->planner->use(schedule);
}

void Communicator::use_default(Collective collective) { impl_->planner->use_default(collective); }

std::string Communicator::explain(const Call& call) const { return impl_->explain(call); }

std::string Communicator::predict(const Call& call) { return impl_->predict(call); }

Stats Communicator::stats() const { return impl_->stats(); }

Rank Async::rank() const noexcept { return impl_->group.rank; }
int Async::size() const noexcept { return impl_->group.size; }
Work Async::submit(const Call& call) {
  return Work(impl_->with_others([&] {
    impl_->admit(call);
    return impl_->start({&call, 1});
  }));
}

Rank Group::rank() const noexcept { return impl_->group.rank; }
int Group::size() const noexcept { return impl_->group.size; }

void Group::submit(const Call& call) {
  impl_->with_others([&] {
    impl_->admit(call);
    calls_.add(call);
  });
}

Work Group::start() {
  const detail::CallList started = std::exchange(calls_, {});
  return Work(impl_->with_others([&] { return impl_->start(started.calls()); }));
}

void Group::run() {
  const detail::CallList started = std::exchange(calls_, {});
  impl_->with_others([&] { impl_->run(started.calls()); });
}

Work::~Work() {
  try {
    if (pending_ && pending_->owner != nullptr) pending_->owner->wait(*pending_, std::nullopt);
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): the communicator keeps the failure; its next call reports it
  }
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    const Work finished(std::move(*this));
    pending_ = std::move(other.pending_);
  }
  return *this;
}

void Work::wait() { wait_for(pending_.get(), std::nullopt); }
void Work::wait(std::chrono::milliseconds timeout) { wait_for(pending_.get(), Deadline(timeout)); }

bool Work::test() {
  if (pending_ == nullptr) return true;
  if (pending_->owner != nullptr) return pending_->owner->test(*pending_);
  if (pending_->failure) std::rethrow_exception(pending_->failure);
  return true;
}

}  // namespace tutti
