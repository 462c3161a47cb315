// How a communicator comes to its ranks.
#include <fmt/format.h>

#include <algorithm>
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

void Comm::connect(const std::shared_ptr<Communicator>& communicator) {
  {
    const std::scoped_lock lock(state_mutex_);
    if (aborted_) throw Failure(ncclInvalidUsage, "aborted before it was ready");
    communicator_ = communicator;
  }
  rank_ = communicator->rank();
  size_ = communicator->size();
  api_ = gpu::api();
  GpuOptions options;
  options.blocks = config_.blocks;
  gpu_.emplace(*communicator, options);
  between_streams_ = api_->create_event();
  copies_read_ = api_->create_event();
  // Should the communicator fail, its survivors meet where the first of them listens.
  const UniqueId mine = UniqueId::create(options_from_environment().interface);
  successors_.resize(static_cast<std::size_t>(size_));
  communicator->all_gather(mine.bytes.data(), successors_.data(), UniqueId::size, DataType::uint8);
  neighbours_ = neighbours_of(successors_.front());
  log(Level::info, device_,
      fmt::format("comm {} {}{}rank {} nranks {} cudaDev {} - Init COMPLETE (tutti, at most {} blocks)\n{}",
                  static_cast<const void*>(this), config_.name, config_.name.empty() ? "" : " ", rank(),
                  size(), device_, config_.blocks, gpu_->explain()));
}

void Comm::join(const UniqueId& id, Rank rank, int size, const Options& options) {
  const std::scoped_lock lock(use_);
  connect(std::make_shared<Communicator>(id, rank, size, options));
}

void Comm::join_part(Comm& parent, int color, int key) {
  const std::scoped_lock lock(parent.use_, use_);
  parent.require_ready();
  auto part = parent.communicator()->split(color, key);
  connect(std::make_shared<Communicator>(std::move(*part)));
}

void Comm::leave_part(int key) {
  const std::scoped_lock lock(use_);
  static_cast<void>(communicator()->split(no_color, key));
}

void Comm::join_survivors(Comm& parent, const std::vector<Rank>& survivors) {
  const std::scoped_lock lock(parent.use_, use_);
  const Rank first = survivors.front();
  auto& meeting = parent.successors_.at(static_cast<std::size_t>(first));
  const auto mine = static_cast<Rank>(std::ranges::find(survivors, parent.rank()) - survivors.begin());
  const Options options = options_from_environment();
  connect(std::make_shared<Communicator>(meeting, mine, static_cast<int>(survivors.size()), options));
  // An id is good for one meeting; the parent's survivors may have to meet again.
  if (parent.rank() == first) meeting = UniqueId::create(options.interface);
  communicator()->broadcast(meeting.bytes.data(), meeting.bytes.data(), UniqueId::size, DataType::uint8, 0);
}

void Comm::disconnect() {
  if (!successors_.empty()) bootstrap::drop_listener(successors_[static_cast<std::size_t>(rank_)]);
  for (gpu::Event* const event : {&between_streams_, &copies_read_})
    if (*event != nullptr) api_->destroy_event(std::exchange(*event, nullptr));
  gpu_.reset();
  const std::scoped_lock lock(state_mutex_);
  communicator_.reset();
}

}  // namespace tutti::nccl
