#include "gpu/mailboxes.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/memory_file.hpp"
#include "base/system_error.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::gpu {

namespace {

/// Where a rank has the mailboxes that it writes. Sent as bytes.
struct Places {
  std::byte* memory = nullptr;                  ///< its address there
  std::int8_t of_peer[device::max_ranks] = {};  ///< number of the mailbox for a rank; -1: none
};

FileDescriptor make_file(std::size_t bytes) {
  FileDescriptor file = make_memory_file("tutti-gpu");
  if (!file) throw_errno("memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno("cannot size page-locked memory for GPUs");
  return file;
}

}  // namespace

SharedPinned::SharedPinned(std::shared_ptr<Api> api, const FileDescriptor& file) : api_(std::move(api)) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno("fstat");
  bytes_ = static_cast<std::size_t>(status.st_size);
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) throw_errno("cannot map page-locked memory for GPUs");
  data_ = static_cast<std::byte*>(memory);
  try {
    api_->pin(data_, bytes_);
  } catch (...) {
    ::munmap(data_, bytes_);
    throw;
  }
}

SharedPinned::~SharedPinned() {
  api_->unpin(data_);
  ::munmap(data_, bytes_);
}

Mailboxes::Mailboxes(const std::shared_ptr<Api>& api, const Setting& setting, const Agreement& agreement,
                     const std::vector<std::uint64_t>& address_spaces, device::Membership& group) {
  if (agreement.all_by_device) return;
  const std::size_t bytes = group.mailbox.bytes();
  const auto own_space = address_spaces[static_cast<std::size_t>(setting.group.rank)];
  Places places;
  std::fill(std::begin(places.of_peer), std::end(places.of_peer), std::int8_t{-1});
  std::vector<Rank> other_processes;
  int outboxes = 0, inboxes = 0;  // the latter where the network writes
  for (Rank r = 0; r < setting.group.size; ++r) {
    const auto peer = static_cast<std::size_t>(r);
    const Way way = agreement.ways[peer].way;
    if (way == Way::device) continue;
    places.of_peer[r] = static_cast<std::int8_t>(outboxes++);
    if (way == Way::network)
      ++inboxes;
    else if (address_spaces[peer] != own_space)
      other_processes.push_back(r);
  }
  FileDescriptor file;  // until all have it: mappings keep the memory
  transport::do_together(setting.group, [&] {
    if (outboxes == 0) return;
    file = make_file(static_cast<std::size_t>(outboxes + inboxes) * bytes);
    mine_ = std::make_unique<SharedPinned>(api, file);
  });
  const auto mailbox = [bytes](std::byte* memory, int number) {
    return memory + static_cast<std::size_t>(number) * bytes;
  };
  if (mine_ != nullptr) places.memory = mine_->data();
  const std::vector<Places> all = all_gather(setting.group, places);
  const auto passed = transport::shm::exchange_descriptors(setting.group, file.get(), other_processes);

  std::vector<std::byte*> reached(all.size());  // the memory of each rank
  std::ranges::transform(all, reached.begin(), &Places::memory);
  transport::do_together(setting.group, [&] {
    theirs_.reserve(passed.size());
    for (const auto& one : passed) {
      theirs_.push_back(std::make_unique<SharedPinned>(api, one.descriptor));
      reached[static_cast<std::size_t>(one.from)] = theirs_.back()->data();
    }
  });

  int next_inbox = outboxes;
  for (Rank r = 0; r < setting.group.size; ++r) {
    const auto peer = static_cast<std::size_t>(r);
    const Way way = agreement.ways[peer].way;
    if (way == Way::device) continue;
    group.arenas[r] = nullptr;
    group.outboxes[r] = mailbox(mine_->data(), places.of_peer[r]);
    group.inboxes[r] = way == Way::network ? mailbox(mine_->data(), next_inbox++)
                                           : mailbox(reached[peer], all[peer].of_peer[setting.group.rank]);
    group.out_slots[r] = group.outboxes[r] + group.mailbox.slots();
    group.in_slots[r] = group.inboxes[r] + group.mailbox.slots();
  }
}

}  // namespace tutti::gpu
