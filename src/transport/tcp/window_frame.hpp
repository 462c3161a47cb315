/// \file
/// What travels between a window and the server of a target's memory: frames, some with payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::transport::tcp {

enum class WindowKind : std::uint32_t {
  // to the server; each is one operation, and they run in the order of their arrival
  put,           ///< a: offset, b: bytes; payload follows
  get,           ///< a: offset, b: bytes
  notify,        ///< a: number of the notification
  fetch_add,     ///< a: offset, b: value
  compare_swap,  ///< a: offset, b: expected, c: desired
  ask,           ///< b: bytes; payload follows: what another transport says to its like
  // from the server
  done,     ///< nothing but `number`
  data,     ///< b: bytes; payload follows: the answer to a get
  value,    ///< a: the answer to an atomic
  answer,   ///< b: bytes; payload follows
  refused,  ///< a: ErrorCode, b: bytes; payload follows: why there is no answer, in words
};

/// In the byte order of the sender: a peer of the other one fails at `magic`.
struct WindowFrame {
  static constexpr std::uint32_t expected_magic = 0x32495754;  // "TWI2" in memory
  std::uint32_t magic = expected_magic;
  WindowKind kind{};
  std::uint64_t number = 0;  ///< from the server: so many operations are done, this one included
  std::uint64_t a = 0, b = 0, c = 0;
  std::array<std::uint64_t, 3> unused{};  ///< the payload's place: see frame.hpp
};
static_assert(sizeof(WindowFrame) == 64);

/// Longest payload of `ask` and `answer`.
inline constexpr std::size_t longest_question = 4096;

}  // namespace tutti::transport::tcp
