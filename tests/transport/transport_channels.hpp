/// \file
/// The FIFOs of one transport, for lowering.
#pragma once

#include "execution/lower.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::testing {

class TransportChannels final : public execution::Channels {
 public:
  explicit TransportChannels(Transport& transport) : transport_(transport) {}
  Sender& sender(Rank peer, int channel) override { return transport_.sender(peer, channel); }
  Receiver& receiver(Rank peer, int channel) override { return transport_.receiver(peer, channel); }

 private:
  Transport& transport_;
};

}  // namespace tutti::transport::testing
