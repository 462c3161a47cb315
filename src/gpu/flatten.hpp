/// \file
/// A lowered program as the blocks of a GPU read it.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "execution/lower.hpp"
#include "gpu/device/program.hpp"

namespace tutti::gpu {

/// Channel ends that only have names: lowering puts them into programs, which the device runs over its own
/// FIFOs. Programs hold pointers into it.
class NamedChannels final : public execution::Channels {
 public:
  transport::Sender& sender(Rank peer, int channel) override { return end(peer, channel); }
  transport::Receiver& receiver(Rank peer, int channel) override { return end(peer, channel); }

  /// Both ends of a name; nothing moves through it on the host.
  class End final : public transport::Sender, public transport::Receiver {
   public:
    explicit End(int channel) : channel_(channel) {}
    [[nodiscard]] int channel() const { return channel_; }
    std::byte* try_reserve(std::size_t /*bytes*/) override;
    void publish(std::size_t /*bytes*/, transport::Tag /*tag*/) override;
    bool try_send(const std::byte* /*data*/, std::size_t /*bytes*/, transport::Tag /*tag*/,
                  bool /*stable*/) override;
    bool flushed() override;
    const std::byte* try_acquire(std::size_t /*bytes*/, transport::Tag /*tag*/) override;
    void release() override;
    bool try_receive(std::byte* /*into*/, std::size_t /*bytes*/, transport::Tag /*tag*/) override;

   private:
    int channel_;
  };

 private:
  End& end(Rank peer, int channel) { return ends_.try_emplace({peer, channel}, channel).first->second; }
  std::map<std::pair<Rank, int>, End> ends_;
};

/// What a program does not say.
struct FlattenSettings {
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool one_sided = false;
  int slices = 1;                ///< blocks a lane
  std::size_t packet_limit = 0;  ///< bytes; used when there is one slice, in programs of messages
};

/// The device's form of a program that was lowered over NamedChannels. Throws Error(unsupported) for a step
/// of more operands than a block has room for.
std::vector<std::byte> flatten(const execution::Program& program, const FlattenSettings& settings);

}  // namespace tutti::gpu
