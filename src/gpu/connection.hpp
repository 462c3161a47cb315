/// \file
/// The ways from this rank's GPU to those of the others, proved before anything relies on them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/line.hpp"
#include "gpu/mailboxes.hpp"
#include "gpu/resources.hpp"
#include "gpu/setting.hpp"
#include "gpu/shared_memory.hpp"
#include "gpu/ways.hpp"

namespace tutti::gpu {

class Connection {
 public:
  /// Collective, on the current device. Throws what Gpu's constructor says.
  Connection(std::shared_ptr<Api> api, const Setting& setting);
  /// Memory that others write is not freed, unless `end` was called: they may still do.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  /// No kernel of this rank will run any more. Before others free their arenas.
  void close_peers() { arenas_ = {}; }
  /// No rank's kernel runs any more, nor will one; all have closed what they opened.
  void end() { ended_ = true; }

  [[nodiscard]] int device() const { return device_; }
  /// As launches take it, in device memory.
  [[nodiscard]] std::byte* arena_memory() const { return memory_.get(); }
  [[nodiscard]] const device::Membership* membership() const {
    return reinterpret_cast<const device::Membership*>(membership_.get());
  }
  [[nodiscard]] device::Control& control() const {
    return *reinterpret_cast<device::Control*>(control_.get());
  }
  [[nodiscard]] const device::Arena& arena() const { return arena_; }
  /// All ranks are threads of one process whose devices reach each other: pointers mean the same to all.
  [[nodiscard]] bool one_address_space() const { return one_address_space_ && agreement_.all_by_device; }
  /// Another rank is a thread of this process on the same device.
  [[nodiscard]] bool shares_device() const { return shares_device_; }
  /// Every pair of ranks reaches each other's device memory.
  [[nodiscard]] bool all_by_device() const { return agreement_.all_by_device; }
  [[nodiscard]] std::span<const Nearness> peers() const { return peers_; }
  /// Zeroed device memory in the form that arenas have: what opened those opens this.
  [[nodiscard]] DeviceMemory allocate_shared(std::size_t bytes) const;
  /// Of the next upload, which is for kernels launched later; nothing of this rank runs on the device.
  void set_region(Rank rank, std::size_t index, const device::Region& region) {
    group_.regions[rank][index] = region;
  }
  void upload_regions(std::size_t count);
  /// Some pair of ranks, whichever, talks over a network.
  [[nodiscard]] bool needs_network() const { return agreement_.some_by_network; }
  [[nodiscard]] const device::Mailbox& mailbox() const { return group_.mailbox; }
  /// To the ranks that are reached over the network, through host memory.
  [[nodiscard]] std::vector<Line> lines() const;
  /// From the next launch on, slots are where these lines have them.
  void use(const std::vector<Line>& lines);
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  struct Card;
  Card begin(const GpuOptions& options);
  void check_options(const std::vector<Card>& cards) const;
  void look_at_devices(const Setting& setting, const std::vector<Card>& cards);
  [[nodiscard]] std::vector<Nearness> nearness(const Setting& setting, const std::vector<Card>& cards) const;
  void make_arena(const Setting& setting, bool shared);
  void allocate_arena();
  void share_arenas(const Setting& setting);
  std::vector<Proposal> propose(const Setting& setting, const std::vector<Card>& cards);
  Proposal propose(const Setting& setting, const Card& theirs, Rank peer);
  void abandon() noexcept;
  void upload();
  void describe(const std::vector<Card>& cards);
  bool prove(const Setting& setting, std::vector<Proposal>& proposals);
  [[nodiscard]] std::vector<Rank> find_wrong(const Setting& setting);

  std::shared_ptr<Api> api_;
  int device_ = -1;
  device::Arena arena_;
  DeviceMemory memory_;
  PinnedMemory control_;
  std::vector<Nearness> peers_;
  SharedMemory arenas_;
  std::string why_no_descriptor_, why_no_fabric_;
  bool shares_ = false;  ///< arenas are opened by descriptors or fabric handles
  device::Membership group_;
  DeviceMemory membership_;
  Agreement agreement_;
  std::unique_ptr<Mailboxes> mailboxes_;
  bool one_address_space_ = true, shares_device_ = false, ended_ = false;
  std::string description_;
};

}  // namespace tutti::gpu
