/// \file
/// The mailboxes of one rank (device/mailbox.hpp), and their readers' places in those of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/file_descriptor.hpp"
#include "gpu/api.hpp"
#include "gpu/device/membership.hpp"
#include "gpu/setting.hpp"
#include "gpu/ways.hpp"

namespace tutti::gpu {

/// A memfd, mapped and page-locked: the same memory for devices, and for other processes that get its
/// descriptor.
class SharedPinned {
 public:
  /// It stays when the descriptor is closed. Throws Error(system).
  SharedPinned(std::shared_ptr<Api> api, const FileDescriptor& file);
  ~SharedPinned();
  SharedPinned(const SharedPinned&) = delete;
  SharedPinned& operator=(const SharedPinned&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Api> api_;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

class Mailboxes {
 public:
  /// Makes them, and writes into `group` where they are. Collective. Throws Error(system, timeout).
  Mailboxes(const std::shared_ptr<Api>& api, const Setting& setting, const Agreement& agreement,
            const std::vector<std::uint64_t>& address_spaces, device::Membership& group);
  /// Of this rank.
  [[nodiscard]] std::size_t bytes() const { return mine_ == nullptr ? 0 : mine_->bytes(); }

 private:
  std::unique_ptr<SharedPinned> mine_;
  std::vector<std::unique_ptr<SharedPinned>> theirs_;
};

}  // namespace tutti::gpu
