/// \file
/// What a connection is for, as one number of the handshake.
#pragma once

#include <cassert>
#include <cstdint>

namespace tutti::transport::tcp {

/// Streams a FIFO at most.
inline constexpr int max_streams = 16;

struct Purpose {
  std::uint64_t communicator = 0;  ///< below 2^48
  int channel = 0;
  int stream = 0;

  [[nodiscard]] constexpr std::uint64_t pack() const {
    assert(communicator >> 48 == 0);
    return communicator << 16 | static_cast<std::uint64_t>(channel) << 8 | static_cast<std::uint64_t>(stream);
  }
  static constexpr Purpose unpack(std::uint64_t packed) {
    return {packed >> 16, static_cast<int>(packed >> 8 & 0xff), static_cast<int>(packed & 0xff)};
  }
};

}  // namespace tutti::transport::tcp
