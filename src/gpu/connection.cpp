#include "gpu/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <tutti/error.hpp>

namespace tutti::gpu {

// What a rank tells the others. Sent as bytes.
struct Connection::Card {
  std::uint64_t address_space = 0;
  std::byte* arena = nullptr;  ///< its address there
  DeviceId device_id{};
  std::int32_t device = -1;
  std::uint32_t slices = 0, slot_bytes = 0;
  IpcHandle handle{};
};

namespace {

// The longest message that leaves the arenas of these ranks within the wanted memory.
device::Arena lay_out(int ranks, const GpuOptions& options) {
  constexpr std::uint32_t smallest_slot = 4096, largest_slot = 65536, packets = 8192;
  device::Arena arena;
  arena.ranks = static_cast<std::uint32_t>(ranks);
  arena.slices = static_cast<std::uint32_t>(std::clamp(options.blocks / 2, 1, device::max_slices));
  arena.packet_bytes = packets;
  arena.slot_bytes = largest_slot;
  while (arena.slot_bytes > smallest_slot && arena.bytes() > options.memory) arena.slot_bytes /= 2;
  return arena;
}

template <class T>
std::vector<T> all_gather(const Setting& setting, const T& mine) {
  std::vector<T> all;
  for (const auto& bytes : setting.group.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    if (bytes.size() != sizeof(T)) throw Error(ErrorCode::mismatch, "ranks run different versions of tutti");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}

// What did not work on some rank, on all ranks: they fail together. Collective.
void fail_together(const Setting& setting, ErrorCode code, const std::string& mine) {
  std::vector<Rank> ranks;
  std::string text;
  const auto all = setting.group.all_gather(std::as_bytes(std::span(mine)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    ranks.push_back(static_cast<Rank>(r));
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", r,
                        std::string(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
  }
  if (!text.empty()) throw Error(code, text, ranks);
}

class TemporaryStream {
 public:
  explicit TemporaryStream(Api& api) : api_(api), stream_(api.create_stream()) {}
  ~TemporaryStream() { api_.destroy_stream(stream_); }
  TemporaryStream(const TemporaryStream&) = delete;
  TemporaryStream& operator=(const TemporaryStream&) = delete;
  [[nodiscard]] Stream get() const { return stream_; }

 private:
  Api& api_;
  Stream stream_;
};

}  // namespace

Connection::Connection(std::shared_ptr<Api> api, const Setting& setting)
    : api_(std::move(api)),
      device_(api_->current_device()),
      arena_(lay_out(setting.group.size, setting.options)) {
  memory_ = allocate(api_, arena_.bytes());
  control_ = allocate_pinned(api_, sizeof(device::Control));
  Card card;
  card.address_space = api_->address_space();
  card.arena = memory_.get();
  card.device = device_;
  card.device_id = api_->device_id(device_);
  card.slices = arena_.slices;
  card.slot_bytes = arena_.slot_bytes;
  card.handle = api_->export_memory(memory_.get());
  const auto cards = all_gather(setting, card);
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (cards[r].slices != card.slices || cards[r].slot_bytes != card.slot_bytes)
      throw Error(ErrorCode::mismatch,
                  fmt::format("rank {} has other GpuOptions than rank {}; all ranks must have the same", r,
                              setting.group.rank),
                  {static_cast<Rank>(r)});
  device::Membership membership;
  fail_together(setting, ErrorCode::unsupported, reach(setting, cards, membership));
  membership_ = allocate(api_, sizeof membership);
  api_->upload(membership_.get(), reinterpret_cast<const std::byte*>(&membership), sizeof membership);
  prove(setting, cards);
}

// Empty, or why not.
std::string Connection::reach(const Setting& setting, const std::vector<Card>& cards,
                              device::Membership& membership) {
  const Card& mine = cards[static_cast<std::size_t>(setting.group.rank)];
  const auto timeout = setting.options.timeout.count() > 0 ? setting.options.timeout : setting.group.timeout;
  membership.rank = setting.group.rank;
  membership.size = setting.group.size;
  membership.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(timeout).count());
  membership.control = reinterpret_cast<device::Control*>(control_.get());
  membership.arena = arena_;
  description_ = fmt::format("device {} ({}), {} KiB for messages of up to {} bytes", device_,
                             api_->device_name(device_), arena_.bytes() / 1024, arena_.slot_bytes);
  for (Rank r = 0; r < setting.group.size; ++r) {
    const Card& card = cards[static_cast<std::size_t>(r)];
    std::string way;
    if (r == setting.group.rank) {
      membership.arenas[r] = memory_.get();
      continue;
    }
    if (!setting.same_host(r))
      return fmt::format("rank {} is on another host; GPU buffers do not go there yet", r);
    if (card.address_space == mine.address_space) {
      if (!api_->reach_device(card.device))
        return fmt::format("device {} cannot reach device {} of rank {} (no peer access)", device_,
                           card.device, r);
      membership.arenas[r] = card.arena;
      way = card.device == device_ ? "the same device" : "peer access";
    } else {
      one_address_space_ = false;
      try {
        imports_.emplace_back(api_->import_memory(card.handle), detail::ForgetImport{api_});
      } catch (const Error& error) {
        return fmt::format("the memory of rank {} cannot be opened: {}", r, error.what());
      }
      membership.arenas[r] = imports_.back().get();
      way = card.device_id == mine.device_id
                ? "CUDA IPC, the same device: kernels of two processes take turns"
                : "CUDA IPC";
    }
    description_ += fmt::format("\n  rank {}: {}", r, way);
  }
  return {};
}

void Connection::prove(const Setting& setting, const std::vector<Card>& cards) {
  const std::size_t bytes = sizeof(std::uint32_t) * cards.size();
  const PinnedMemory wrong = allocate_pinned(api_, bytes);
  auto* words = reinterpret_cast<std::uint32_t*>(wrong.get());
  const TemporaryStream stream(*api_);
  std::string failure;
  for (int phase = 0; phase < 2; ++phase) {
    api_->launch_proof(membership(), phase, words, stream.get());
    api_->synchronize(stream.get());
    if (phase == 0) static_cast<void>(setting.group.all_gather({}));
  }
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (words[r] != 0)
      failure +=
          fmt::format("{}what rank {} wrote into its memory did not arrive", failure.empty() ? "" : ", ", r);
  if (!failure.empty())
    failure +=
        " (access control services or an IOMMU between the devices do that; turn them off in the BIOS)";
  fail_together(setting, ErrorCode::system, failure);
}

}  // namespace tutti::gpu
