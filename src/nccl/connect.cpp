// How a communicator comes to its ranks.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "bootstrap/rendezvous.hpp"
#include "nccl/comm.hpp"
#include "nccl/log.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

/// Neighbours find each other by an id that only their communicator has.
std::shared_ptr<Neighbours> neighbours_of(const UniqueId& id) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<decltype(id.bytes), std::weak_ptr<Neighbours>>;
  const std::scoped_lock lock(*mutex);
  std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
  auto& known = (*all)[id.bytes];
  auto neighbours = known.lock();
  if (!neighbours) known = neighbours = std::make_shared<Neighbours>();
  const std::scoped_lock inner(neighbours->mutex);
  ++neighbours->open;
  return neighbours;
}

}  // namespace

// All that a rank makes alone, before all make the Gpu together: who fails here gives no id, so nobody waits.
void Comm::make_own_part(Communicator& communicator) {
  successors_.resize(static_cast<std::size_t>(size_));
  UniqueId mine;
  std::exception_ptr failure;
  try {
    api_ = gpu::api();
    api_->set_device(device_);
    between_streams_ = gpu::make_event(api_);
    copies_read_ = gpu::make_event(api_);
    // Should the communicator fail, its survivors meet where the first of them listens.
    mine = successors_.at(static_cast<std::size_t>(rank_)) = new_id();
  } catch (...) {
    failure = std::current_exception();
  }
  communicator.all_gather(mine.bytes.data(), successors_.data(), UniqueId::size, DataType::uint8);
  if (failure) std::rethrow_exception(failure);
  const auto failed = std::ranges::find(successors_, UniqueId{});
  if (failed != successors_.end())
    throw Failure(ncclRemoteError,
                  fmt::format("rank {} could not make its part of the communicator, and says why there",
                              failed - successors_.begin()));
}

void Comm::connect(const std::shared_ptr<Communicator>& communicator) {
  {
    const std::scoped_lock lock(state_mutex_);
    if (aborted_) throw Failure(ncclInvalidUsage, "aborted before it was ready");
    communicator_ = communicator;
  }
  rank_ = communicator->rank();
  size_ = communicator->size();
  make_own_part(*communicator);
  GpuOptions options;
  options.blocks = config_.blocks;
  // Before ranks wait for each other: the first that is made, and ends, must know of all the others here.
  auto neighbours = neighbours_of(successors_.front());
  try {
    gpu_.emplace(*communicator, options);
  } catch (...) {
    const std::scoped_lock lock(neighbours->mutex);
    --neighbours->open;
    throw;
  }
  {
    const std::scoped_lock lock(state_mutex_);
    neighbours_ = std::move(neighbours);
  }
  log(Level::info, device_,
      fmt::format("comm {} {}{}rank {} nranks {} cudaDev {} - Init COMPLETE (tutti, at most {} blocks)\n{}",
                  static_cast<const void*>(this), config_.name, config_.name.empty() ? "" : " ", rank(),
                  size(), device_, config_.blocks, gpu_->explain()));
}

void Comm::join(const UniqueId& id, Rank rank, int size, const Options& options) {
  const std::scoped_lock lock(use_);
  connect(std::make_shared<Communicator>(id, rank, size, options));
}

std::optional<Communicator> Comm::split(int color, int key) {
  const std::scoped_lock lock(use_);
  return communicator()->split(color, key);
}

void Comm::join_part(Comm& parent, int color, int key, Turn& turn) {
  auto part = parent.split(color, key);
  turn.end();
  const std::scoped_lock lock(use_);
  connect(std::make_shared<Communicator>(std::move(*part)));
}

void Comm::leave_part(int key) { static_cast<void>(split(no_color, key)); }

UniqueId Comm::successor(Rank rank) {
  const std::scoped_lock lock(use_);
  return successors_.at(static_cast<std::size_t>(rank));
}

void Comm::set_successor(Rank rank, const UniqueId& id) {
  const std::scoped_lock lock(use_);
  successors_.at(static_cast<std::size_t>(rank)) = id;
}

// The parent is not held meanwhile: it may be aborted.
void Comm::join_survivors(Comm& parent, const std::vector<Rank>& survivors) {
  const std::scoped_lock lock(use_);
  const Rank first = survivors.front();
  UniqueId meeting = parent.successor(first);
  const auto mine = static_cast<Rank>(std::ranges::find(survivors, parent.rank()) - survivors.begin());
  const Options options = options_from_environment();
  connect(std::make_shared<Communicator>(meeting, mine, static_cast<int>(survivors.size()), options));
  // An id is good for one meeting; the parent's survivors may have to meet again.
  if (parent.rank() == first) {
    meeting = new_id();
    parent.set_successor(first, meeting);
  }
  communicator()->broadcast(meeting.bytes.data(), meeting.bytes.data(), UniqueId::size, DataType::uint8, 0);
  parent.set_successor(first, meeting);
}

Comm::~Comm() { disconnect(); }

void Comm::disconnect() {
  std::optional<gpu::OnDevice> here;
  try {
    if (api_) here.emplace(*api_, device_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what is left goes all the same
  }
  if (!successors_.empty()) bootstrap::drop_listener(successors_[static_cast<std::size_t>(rank_)]);
  between_streams_.reset();
  copies_read_.reset();
  gpu_.reset();
  scaled_.clear();
  scaled_bytes_.clear();
  outgrown_.clear();
  std::shared_ptr<Communicator> last;  // goes after the lock: rank 0 waits a while for the others to leave
  const std::scoped_lock lock(state_mutex_);
  last = std::move(communicator_);
}

}  // namespace tutti::nccl
