/// \file
/// Ranks whose GPU is a set of host threads.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/device/membership.hpp"
#include "gpu/flatten.hpp"
#include "gpu/host_block.hpp"
#include "gpu/in_turn.hpp"

namespace tutti::test {

class DeviceRanks {
 public:
  struct Settings {
    int slices = 1;
    int threads = 3;  ///< a block
    std::uint32_t slot_bytes = 1024, packet_bytes = 256;
    std::uint64_t timeout_ns = 60'000'000'000;
    bool far_programs = false;  ///< as if they did not fit into shared memory
    std::uint64_t before = 0;   ///< messages that every FIFO has had
  };

  DeviceRanks(int size, const Settings& settings)
      : settings_(settings), controls_(static_cast<std::size_t>(size)) {
    gpu::device::Arena layout;
    layout.ranks = static_cast<std::uint32_t>(size);
    layout.slices = layout.slot_slices = static_cast<std::uint16_t>(settings.slices);
    layout.slot_bytes = settings.slot_bytes;
    layout.packet_bytes = settings.packet_bytes;
    for (int r = 0; r < size; ++r) {
      arenas_.emplace_back(allocate(layout.bytes()), &std::free);
      if (settings.before == 0) continue;
      const auto words = [&](std::size_t from, std::size_t to, std::uint64_t value) {
        std::fill_n(reinterpret_cast<std::uint64_t*>(arenas_.back().get() + from), (to - from) / 8, value);
      };
      const std::size_t flags = layout.flag(0, 0, 0, 0);
      words(layout.sent(0, 0, 0), flags, settings.before);   // received and taken, too
      words(flags, layout.runs(0), std::uint64_t{1} << 63);  // of none that comes
    }
    for (int r = 0; r < size; ++r) {
      auto& member = members_.emplace_back();
      member.rank = r;
      member.size = size;
      member.timeout_ns = settings.timeout_ns;
      member.control = &controls_[static_cast<std::size_t>(r)];
      member.arena = layout;
      for (int p = 0; p < size; ++p) member.arenas[p] = arenas_[static_cast<std::size_t>(p)].get();
    }
  }

  /// Runs the programs of all ranks side by side, to their end. `tag`: of rank 0; the others add `tag_step`.
  void run(const std::vector<std::vector<std::byte>>& flat, std::vector<RankBuffers>& all,
           std::uint32_t tag_step = 0) {
    std::vector<std::vector<std::byte>> scratch(flat.size());
    std::vector<std::thread> threads;
    ++sequence_;
    for (std::size_t r = 0; r < flat.size(); ++r) {
      if (flat[r].empty()) continue;  // this rank does not take part
      gpu::device::Launch launch;
      launch.program = reinterpret_cast<const gpu::device::Program*>(flat[r].data());
      scratch[r].resize(launch.program->scratch_bytes * launch.program->slices);
      launch.input = all[r].input.data();
      launch.output = all[r].output.data();
      launch.scratch = scratch[r].data();
      launch.program_bytes = settings_.far_programs ? std::numeric_limits<std::uint32_t>::max()
                                                    : static_cast<std::uint32_t>(flat[r].size());
      launch.group = &members_[r];
      launch.arena = arenas_[r].get();
      launch.type = launch.program->type;
      launch.op = launch.program->op;
      launch.sequence = sequence_;
      launch.tag = 7 + static_cast<std::uint32_t>(r) * tag_step;
      start_launch(threads, launch, settings_.threads);
    }
    for (auto& thread : threads) thread.join();
  }

  [[nodiscard]] gpu::device::Control& control(Rank r) { return controls_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] const gpu::device::Report& report(Rank r) { return control(r).report; }

 private:
  static std::byte* allocate(std::size_t bytes) {
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  Settings settings_;
  std::vector<gpu::device::Control> controls_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> arenas_;
  std::vector<gpu::device::Membership> members_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tutti::test
