/// \file
/// The one exception of the library. Broken invariants inside it are assertions, not exceptions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/types.hpp>

namespace tutti {

/// What went wrong, coarsely enough to switch on.
enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< the caller's arguments; nothing was sent (but where a GPU finds it: DeviceBlocks)
  invalid_schedule,  ///< a schedule that does not parse, or that its proof or `use` refuses; nothing was sent
  mismatch,          ///< ranks called different operations, counts, types, roots
  timeout,           ///< a deadline passed; the message says what was waited for, and for whom
  peer_lost,         ///< a rank died or destroyed its communicator; docs/errors.md: how others go on
  aborted,           ///< this rank or another one called `abort`, or failed before
  unauthorized,      ///< a peer could not prove that it knows the secret
  system,            ///< the system or a device refused something, also memory; the message holds its text
  unsupported,       ///< not in this build or not on this machine
  forked,            ///< a communicator was used in a child made by fork
};

/// "invalid_argument", ...; "invalid" outside the enumeration. Never throws.
std::string_view name(ErrorCode code) noexcept;

/// Thrown by every fallible call of tutti; where memory ends, std::bad_alloc may come in its place. `what()`
/// is one sentence a person can act on: operation with its sequence number, the ranks at fault, the cause and
/// the remedy. Immutable, hence safe to share between threads.
class Error : public std::runtime_error {
 public:
  /// `ranks`: the ranks at fault, in the numbering of the communicator that failed; empty when unknown, and
  /// of more than 4096 the first ones. Of a collective's timeout: those of this host that have not made
  /// the call, and those waited for of which it is not known; or where there are none, and of sends and
  /// receives, those waited for. They may still be at work.
  Error(ErrorCode code, const std::string& message, std::vector<Rank> ranks = {});
  /// As they were given.
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::vector<Rank>& ranks() const noexcept { return ranks_; }

 private:
  ErrorCode code_;
  std::vector<Rank> ranks_;
};

}  // namespace tutti
