/// \file
/// The ways from this rank's GPU to those of the others: arenas, proved to be reachable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/resources.hpp"
#include "gpu/setting.hpp"

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
  /// All ranks are threads of one process: pointers mean the same to all of them.
  [[nodiscard]] bool one_address_space() const { return one_address_space_; }
  /// The arena is not freed: others may still write into it.
  void abandon() noexcept { static_cast<void>(memory_.release()); }
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  struct Card;
  std::string reach(const Setting& setting, const std::vector<Card>& cards, device::Membership& membership);
  void prove(const Setting& setting, const std::vector<Card>& cards);

  std::shared_ptr<Api> api_;
  int device_;
  device::Arena arena_;
  DeviceMemory memory_;
  PinnedMemory control_;
  std::vector<ImportedMemory> imports_;
  DeviceMemory membership_;
  bool one_address_space_ = true;
  std::string description_;
};

}  // namespace tutti::gpu
