/// \file
/// The ways from this rank's GPU to those of the others, proved before anything relies on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/mailboxes.hpp"
#include "gpu/proxy.hpp"
#include "gpu/resources.hpp"
#include "gpu/setting.hpp"
#include "gpu/ways.hpp"

namespace tutti::gpu {

class Connection {
 public:
  /// Collective, on the current device. Throws what Gpu's constructor says.
  Connection(std::shared_ptr<Api> api, const Setting& setting);

  [[nodiscard]] int device() const { return device_; }
  /// As launches take it, in device memory.
  [[nodiscard]] const device::Membership* membership() const {
    return reinterpret_cast<const device::Membership*>(membership_.get());
  }
  [[nodiscard]] device::Control& control() const {
    return *reinterpret_cast<device::Control*>(control_.get());
  }
  [[nodiscard]] const device::Arena& arena() const { return arena_; }
  /// All ranks are threads of one process whose devices reach each other: pointers mean the same to all.
  [[nodiscard]] bool one_address_space() const { return one_address_space_ && agreement_.all_by_device; }
  /// Some pair of ranks, whichever, talks over a network.
  [[nodiscard]] bool needs_network() const { return agreement_.some_by_network; }
  [[nodiscard]] const device::Mailbox& mailbox() const { return group_.mailbox; }
  /// To the ranks that are reached over the network.
  [[nodiscard]] std::vector<Proxy::Line> lines() const;
  /// The memory that others write is not freed: they may still do.
  void abandon() noexcept;
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  struct Card;
  std::vector<Proposal> propose(const Setting& setting, const std::vector<Card>& cards);
  Proposal propose(const Setting& setting, const Card& mine, const Card& theirs, Rank peer);
  void describe(const std::vector<Card>& cards);
  bool prove(const Setting& setting, std::vector<Proposal>& proposals);
  [[nodiscard]] std::vector<Rank> find_wrong(const Setting& setting) const;

  std::shared_ptr<Api> api_;
  int device_;
  device::Arena arena_;
  DeviceMemory memory_;
  PinnedMemory control_;
  std::vector<ImportedMemory> imports_;
  device::Membership group_;
  DeviceMemory membership_;
  Agreement agreement_;
  std::unique_ptr<Mailboxes> mailboxes_;
  bool one_address_space_ = true;
  std::string description_;
};

}  // namespace tutti::gpu
