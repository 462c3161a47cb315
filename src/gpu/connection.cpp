#include "gpu/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "bootstrap/frame.hpp"
#include "gpu/device/proof.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"

namespace tutti::gpu {

// What a rank tells the others. Sent as bytes.
struct Connection::Card {
  std::uint64_t address_space = 0;
  DeviceId device_id{};
  std::int32_t device = -1;
  std::uint32_t slices = 0, slot_bytes = 0;
  std::int32_t blocks = 0;           ///< GpuOptions::blocks
  std::int32_t resident_blocks = 0;  ///< of the device
  std::int32_t host_size = 0;
  bool peer_access = true, fabric = true;
};

namespace {

// The longest message that leaves the arenas of these ranks within the wanted memory.
device::Arena lay_out(int ranks, const GpuOptions& options) {
  constexpr std::uint32_t smallest_slot = 4096, largest_slot = 65536, packets = 8192;
  device::Arena arena;
  arena.ranks = static_cast<std::uint32_t>(ranks);
  arena.slices = static_cast<std::uint16_t>(std::min(options.blocks, device::max_slices));
  arena.slot_slices = static_cast<std::uint16_t>(std::min(options.blocks, device::max_slot_slices));
  arena.packet_bytes = packets;
  arena.slot_bytes = largest_slot;
  while (arena.slot_bytes > smallest_slot && arena.bytes() > options.memory) arena.slot_bytes /= 2;
  return arena;
}

// `why_no_descriptor`: of memory of this rank.
std::string describe(const PeerMemory& memory, const std::string& why_no_descriptor) {
  if (memory.how == Sharing::descriptor) return "a file descriptor of its memory";
  const std::string& why = memory.how == Sharing::ipc ? why_no_descriptor : memory.why_not;
  return (memory.how == Sharing::ipc ? "CUDA IPC" : "a fabric handle") +
         (why.empty() ? "" : fmt::format(" ({})", why));
}

// Kernels that wait for each other must all run.
void check_fit(const Setting& setting, int threads, int device, int resident_blocks) {
  if (threads * setting.options.blocks <= resident_blocks) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("GpuOptions::blocks is {}: {} ranks are threads on device {}, which runs {} blocks "
                  "side by side; take {} or fewer",
                  setting.options.blocks, threads, device, resident_blocks, resident_blocks / threads));
}

// Why a device of this process is not reached; empty: it is.
std::string why_not_reached(Api& api, int mine, int theirs) {
  try {
    return api.reach_device(theirs) ? ""
                                    : fmt::format("no peer access between devices {} and {}", mine, theirs);
  } catch (const Error& error) {
    return bootstrap::to_fault(error).text;
  }
}

bool pretended_apart(const GpuOptions& options, Rank a, Rank b) {
  return options.host_size > 0 && a / options.host_size != b / options.host_size;
}

}  // namespace

Connection::Connection(std::shared_ptr<Api> api, const Setting& setting)
    : api_(std::move(api)), arena_(lay_out(setting.group.size, setting.options)) {
  group_.rank = setting.group.rank;
  group_.size = setting.group.size;
  group_.timeout_ns =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(bounded(setting.timeout())).count());
  group_.arena = arena_;
  group_.mailbox = {arena_.slot_slices, arena_.slot_bytes};
  Card card;
  transport::do_together(setting.group, [&] { card = begin(setting.options); });
  const auto cards = all_gather(setting.group, card);
  check_options(cards);
  look_at_devices(setting, cards);
  peers_ = nearness(setting, cards);
  share_arenas(setting);
  group_.arenas[group_.rank] = memory_.get();

  std::vector<std::uint64_t> address_spaces;
  address_spaces.reserve(cards.size());
  for (const Card& c : cards) address_spaces.push_back(c.address_space);
  auto proposals = propose(setting, cards);
  try {
    do {
      agreement_ = agree(setting, proposals);
      mailboxes_.reset();
      mailboxes_ = std::make_unique<Mailboxes>(api_, setting, agreement_, address_spaces, group_);
    } while (!prove(setting, proposals));
    transport::do_together(setting.group, [&] { describe(cards); });
  } catch (...) {
    abandon();  // from the first proof on others write
    throw;
  }
}

// Takes the device, and what needs no other rank.
Connection::Card Connection::begin(const GpuOptions& options) {
  device_ = api_->current_device();
  api_->load_kernels();
  control_ = allocate_pinned(api_, sizeof(device::Control));
  group_.control = &control();
  membership_ = allocate(api_, sizeof group_);
  Card card;
  card.address_space = api_->address_space();
  card.device = device_;
  card.device_id = api_->device_id(device_);
  card.slices = arena_.slices;
  card.slot_bytes = arena_.slot_bytes;
  card.blocks = options.blocks;
  card.resident_blocks = api_->resident_blocks();
  card.host_size = options.host_size;
  card.peer_access = options.peer_access;
  card.fabric = options.fabric;
  return card;
}

void Connection::check_options(const std::vector<Card>& cards) const {
  const Card& mine = cards[static_cast<std::size_t>(group_.rank)];
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (cards[r].slices != mine.slices || cards[r].blocks != mine.blocks ||
        cards[r].slot_bytes != mine.slot_bytes || cards[r].host_size != mine.host_size ||
        cards[r].peer_access != mine.peer_access || cards[r].fabric != mine.fabric)
      throw Error(ErrorCode::mismatch,
                  fmt::format("rank {} has other GpuOptions than rank {}; all ranks must have the same", r,
                              group_.rank),
                  {static_cast<Rank>(r)});
}

// Who is in one process, who is on one device, and whether their kernels fit there.
void Connection::look_at_devices(const Setting& setting, const std::vector<Card>& cards) {
  const Card& mine = cards[static_cast<std::size_t>(group_.rank)];
  for (const Card& one : cards) {
    const auto threads = std::ranges::count_if(cards, [&](const Card& other) {
      return other.address_space == one.address_space && other.device == one.device;
    });
    check_fit(setting, static_cast<int>(threads), one.device, one.resident_blocks);
    const bool same_space = one.address_space == mine.address_space;
    if (same_space && one.device == device_) shares_device_ = threads > 1;
    one_address_space_ = one_address_space_ && same_space;
  }
}

Connection::~Connection() {
  if (!ended_) abandon();
}

std::vector<Nearness> Connection::nearness(const Setting& setting, const std::vector<Card>& cards) const {
  const std::uint64_t own_space = cards[static_cast<std::size_t>(group_.rank)].address_space;
  std::vector<Nearness> peers;
  for (Rank r = 0; r < group_.size; ++r) {
    const bool apart = pretended_apart(setting.options, group_.rank, r);
    if (r == group_.rank)
      peers.push_back(Nearness::process);
    else if (!setting.options.peer_access)
      peers.push_back(Nearness::apart);
    else if (cards[static_cast<std::size_t>(r)].address_space == own_space)
      peers.push_back(apart ? Nearness::apart : Nearness::process);
    else if (!apart && setting.same_host(r))
      peers.push_back(Nearness::host);
    else
      peers.push_back(setting.options.fabric ? Nearness::domain : Nearness::apart);
  }
  return peers;
}

// `shared`: opened by descriptors and fabric handles, as far as there are such.
void Connection::make_arena(const Setting& setting, bool shared) {
  if (memory_ != nullptr) {
    arenas_ = {};
    static_cast<void>(setting.group.all_gather({}));  // it is closed before it is freed
    memory_.reset();
  }
  shares_ = shared && why_no_descriptor_.empty();
  transport::do_together(setting.group, [&] { allocate_arena(); });
  arenas_ = SharedMemory(api_, setting, peers_, {memory_.get(), arena_.bytes()});
}

void Connection::allocate_arena() {
  while (memory_ == nullptr) try {
      memory_ = allocate_shared(arena_.bytes());
    } catch (const Error& error) {
      if (!shares_) throw;
      // The driver says that there are fabric handles even where nobody may use them.
      if (why_no_fabric_.empty()) {
        why_no_fabric_ = error.what();
      } else {
        why_no_descriptor_ = error.what();
        shares_ = false;
      }
    }
}

DeviceMemory Connection::allocate_shared(std::size_t bytes) const {
  if (!shares_) return allocate(api_, bytes);
  return {api_->allocate_shared(bytes, why_no_fabric_.empty()), detail::Free{api_}};
}

// All ranks go back to CUDA IPC where some cannot open what a process of their host has shared otherwise.
void Connection::share_arenas(const Setting& setting) {
  const bool processes = std::ranges::any_of(
      peers_, [](Nearness peer) { return peer == Nearness::host || peer == Nearness::domain; });
  transport::do_together(setting.group, [&] {
    if (!processes) return;
    why_no_descriptor_ = api_->why_not_shared(Sharing::descriptor);
    why_no_fabric_ = setting.options.fabric ? api_->why_not_shared(Sharing::fabric) : "GpuOptions::fabric";
  });
  make_arena(setting, processes);
  std::string unopened;
  for (Rank r = 0; r < group_.size && unopened.empty(); ++r)
    if (peers_[static_cast<std::size_t>(r)] == Nearness::host && arenas_.of(r).data == nullptr)
      unopened = arenas_.of(r).why_not;
  const std::vector<std::string> all = all_gather(setting.group, unopened);
  const auto first = std::ranges::find_if(all, [](const std::string& why) { return !why.empty(); });
  if (first == all.end()) return;
  if (why_no_descriptor_.empty())
    why_no_descriptor_ = fmt::format("rank {}: {}", first - all.begin(), *first);
  make_arena(setting, false);
}

std::vector<Proposal> Connection::propose(const Setting& setting, const std::vector<Card>& cards) {
  std::vector<Proposal> proposals;
  proposals.reserve(cards.size());
  for (Rank r = 0; r < group_.size; ++r)
    proposals.push_back(r == group_.rank ? Proposal{}
                                         : propose(setting, cards[static_cast<std::size_t>(r)], r));
  return proposals;
}

Proposal Connection::propose(const Setting& setting, const Card& theirs, Rank peer) {
  const bool apart = pretended_apart(setting.options, group_.rank, peer);
  const bool other_host = apart || !setting.same_host(peer);
  const Nearness near = peers_[static_cast<std::size_t>(peer)];
  const PeerMemory& memory = arenas_.of(peer);
  if (near == Nearness::process)
    if (std::string why = why_not_reached(*api_, device_, theirs.device); !why.empty())
      return {Way::host, std::move(why)};
  if (memory.data != nullptr) {
    group_.arenas[peer] = memory.data;
    return {};
  }
  if (!other_host) return {Way::host, near == Nearness::apart ? "GpuOptions::peer_access" : memory.why_not};
  std::string why = apart ? "GpuOptions::host_size" : "another host";
  if (near == Nearness::domain) why += "; " + (why_no_fabric_.empty() ? memory.why_not : why_no_fabric_);
  return {Way::network, why};
}

// True when all that was written has arrived. Otherwise the ways that fail are proposed no more; where there
// is no other one, all ranks throw.
bool Connection::prove(const Setting& setting, std::vector<Proposal>& proposals) {
  std::string hopeless;
  const std::vector<Rank> wrong = find_wrong(setting);
  for (const Rank r : wrong) {
    auto& proposal = proposals[static_cast<std::size_t>(r)];
    const Way failed = agreement_.ways[static_cast<std::size_t>(r)].way;
    if (failed == Way::device && r != group_.rank)
      proposal = {peers_[static_cast<std::size_t>(r)] == Nearness::domain ? Way::network : Way::host,
                  fmt::format("what was written into device memory between ranks {} and {} did not arrive: "
                              "access control services or an IOMMU between the devices do that; turn them "
                              "off in the BIOS",
                              group_.rank, r)};
    else
      hopeless +=
          fmt::format("{}what rank {} wrote into its memory did not arrive", hopeless.empty() ? "" : ", ", r);
  }
  transport::fail_together(setting.group, ErrorCode::system, hopeless);
  bool right = true;
  for (const std::uint8_t all_right : all_gather(setting.group, static_cast<std::uint8_t>(wrong.empty())))
    right = right && all_right != 0;
  return right;
}

// Ranks whose pattern did not come. The network is trusted; that this device and its host see what the other
// writes is proved in place of it.
std::vector<Rank> Connection::find_wrong(const Setting& setting) {
  constexpr int words_of_proof = device::proof_bytes / sizeof(std::uint64_t);
  const std::size_t bytes = sizeof(std::uint32_t) * static_cast<std::size_t>(group_.size);
  PinnedMemory wrong;
  std::uint32_t* words = nullptr;
  std::optional<TemporaryStream> stream;
  transport::do_together(setting.group, [&] {
    upload();
    wrong = allocate_pinned(api_, bytes);
    words = reinterpret_cast<std::uint32_t*>(wrong.get());
    stream.emplace(*api_);
    api_->launch_proof(membership(), device::Proof::write, words, stream->get());
    api_->synchronize(stream->get());
    for (const Line& line : lines()) {
      const auto* const written =
          reinterpret_cast<const std::uint64_t*>(line.outbox + device::Mailbox::proof());
      auto* const to_read = reinterpret_cast<std::uint64_t*>(line.inbox + device::Mailbox::proof());
      for (int i = 0; i < words_of_proof; ++i) {
        if (device::load_acquire_system(written + i) != device::proof_word(group_.rank, line.peer, i))
          words[line.peer] = 1;
        device::store_release_system(to_read + i, device::proof_word(line.peer, group_.rank, i));
      }
    }
  });
  transport::do_together(setting.group, [&] {  // all have written
    api_->launch_proof(membership(), device::Proof::check, words, stream->get());
    api_->synchronize(stream->get());
  });
  std::vector<Rank> ranks;
  for (Rank r = 0; r < group_.size; ++r)
    if (words[r] != 0) ranks.push_back(r);
  return ranks;
}

void Connection::upload_regions(std::size_t count) {
  group_.region_count = count;
  upload();
}

std::vector<Line> Connection::lines() const {
  std::vector<Line> lines;
  for (Rank r = 0; r < group_.size; ++r)
    if (agreement_.ways[static_cast<std::size_t>(r)].way == Way::network)
      lines.push_back({r, group_.outboxes[r], group_.inboxes[r], group_.out_slots[r], group_.in_slots[r]});
  return lines;
}

void Connection::use(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    group_.out_slots[line.peer] = line.out_slots;
    group_.in_slots[line.peer] = line.in_slots;
  }
  upload();
}

void Connection::upload() {
  api_->upload(membership_.get(), reinterpret_cast<const std::byte*>(&group_), sizeof group_);
}

void Connection::abandon() noexcept {
  static_cast<void>(memory_.release());
  // For good, but not lost: checkers of leaks find it.
  static std::mutex mutex;
  try {
    const std::scoped_lock lock(mutex);
    static auto& kept = *new std::vector<std::unique_ptr<Mailboxes>>;
    kept.push_back(std::move(mailboxes_));
  } catch (...) {
    static_cast<void>(mailboxes_.release());
  }
}

void Connection::describe(const std::vector<Card>& cards) {
  const Card& mine = cards[static_cast<std::size_t>(group_.rank)];
  description_ = fmt::format("device {} ({}), {} KiB for messages of up to {} bytes", device_,
                             api_->device_name(device_), arena_.bytes() / 1024, arena_.slot_bytes);
  if (mailboxes_->bytes() != 0)
    description_ += fmt::format(", and {} KiB of page-locked host memory", mailboxes_->bytes() / 1024);
  for (Rank r = 0; r < group_.size; ++r) {
    if (r == group_.rank) continue;
    const Card& card = cards[static_cast<std::size_t>(r)];
    const Proposal& agreed = agreement_.ways[static_cast<std::size_t>(r)];
    std::string way;
    if (agreed.way == Way::network)
      way = "the network";
    else if (agreed.way == Way::host)
      way = "page-locked host memory";
    else if (arenas_.of(r).how)
      way = gpu::describe(arenas_.of(r), why_no_descriptor_);
    else
      way = card.device == device_ ? "the same device" : "peer access";
    if (!agreed.why.empty()) way += fmt::format(" ({})", agreed.why);
    if (card.address_space != mine.address_space && card.device_id == mine.device_id)
      way += "; the same device: kernels of two processes take turns";
    description_ += fmt::format("\n  rank {}: {}", r, way);
  }
}

}  // namespace tutti::gpu
