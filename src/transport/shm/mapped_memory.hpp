/// \file
/// Memory of a rank of this host, for windows: mapped here, or read and written by cross-memory attach
/// (process_vm_readv(2), process_vm_writev(2)). Everything is done when the call returns.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "transport/remote_memory.hpp"

namespace tutti::transport::shm {

/// Where both ends lie.
struct LocalPlaces {
  std::byte* mine = nullptr;    ///< this rank's memory
  std::byte* theirs = nullptr;  ///< the target's memory, in this address space or in its own
  /// This rank's counters at the target, mapped: [id] words `stride` bytes apart.
  std::byte* counters = nullptr;
  std::size_t stride = 0;
};

/// All that both kinds share.
class LocalMemory : public RemoteMemory {
 public:
  explicit LocalMemory(const LocalPlaces& places) : places_(places) {}
  void notify(std::uint32_t id) final;
  [[nodiscard]] std::uint64_t started() const final { return started_; }
  std::uint64_t done() final { return started_; }
  [[nodiscard]] std::uint64_t known_done() const final { return started_; }
  void wait(std::chrono::microseconds) final {}

 protected:
  LocalPlaces places_;
  std::uint64_t started_ = 0;
};

class MappedMemory final : public LocalMemory {
 public:
  /// `what`: for `explain`.
  MappedMemory(const LocalPlaces& places, std::string what) : LocalMemory(places), what_(std::move(what)) {}
  [[nodiscard]] std::string explain() const override { return what_; }
  void put(std::span<const Block> blocks) override;
  void get(std::span<const Block> blocks) override;
  [[nodiscard]] bool has_atomics() const override { return true; }
  void fetch_add(std::size_t offset, std::uint64_t value, std::uint64_t* before) override;
  void compare_swap(std::size_t offset, std::uint64_t expected, std::uint64_t desired,
                    std::uint64_t* before) override;

 private:
  std::string what_;
};

/// Without atomics: the kernel copies bytes, not words.
class AttachedMemory final : public LocalMemory {
 public:
  /// `ended`: told that the target's process has, before anything is thrown.
  AttachedMemory(
      const LocalPlaces& places, Rank me, pid_t process, Rank target, std::function<void()> ended = [] {})
      : LocalMemory(places), me_(me), process_(process), target_(target), ended_(std::move(ended)) {}
  [[nodiscard]] std::string explain() const override;
  void put(std::span<const Block> blocks) override { move(blocks, true); }
  void get(std::span<const Block> blocks) override { move(blocks, false); }

 private:
  void move(std::span<const Block> blocks, bool is_put);
  Rank me_;
  pid_t process_;
  Rank target_;
  std::function<void()> ended_;
};

}  // namespace tutti::transport::shm
