/// \file
/// The frames between a rank and the hub: a header of 16 bytes (kind, payload size), then the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/session.hpp"

namespace tutti::bootstrap {

enum class FrameKind : std::uint32_t {
  // hub to rank
  welcome,   ///< all ranks have joined; a number that makes the secret of this group from that of its id
  rejected,  ///< Fault: the group cannot form, or an all_gather cannot complete
  gathered,  ///< number of the all_gather, then every rank's size and bytes
  missing,   ///< Fault: the answer to `who`
  ended,     ///< Fault (timeout): instead of `rejected`, to who gave up and came again: it may meet the next
  // both ways; to the hub only `failed` and `closed`
  notice,
  // rank to hub
  contribute,  ///< number of the all_gather, then the bytes
  who,         ///< for whom does this rank wait?
  stuck,       ///< StuckReport
  goodbye,
};

/// What all_gather accepts from one rank, and the largest payload of frames without all_gather data.
inline constexpr std::size_t largest_contribution = std::size_t{1} << 20;
inline constexpr std::size_t largest_contribute_payload = 8 + largest_contribution;
constexpr std::size_t largest_gathered_payload(int size) {
  return 8 + static_cast<std::size_t>(size) * (8 + largest_contribution);
}
inline constexpr std::size_t largest_small_payload = std::size_t{64} << 10;
/// In one Fault or Notice.
inline constexpr std::size_t most_named_ranks = std::size_t{4} << 10;

/// An Error on its way.
struct Fault {
  ErrorCode code = ErrorCode::system;
  std::vector<Rank> ranks;
  std::string text;
};

/// `error` without the library's prefix, which the receiver's Error puts there again.
Fault to_fault(const Error& error);
/// `error` with words in front of its text. Its ranks stay those at fault; where it names none, `ranks` are.
Error with_context(const Error& error, const std::string& words, std::vector<Rank> ranks);
/// What errors say first where a rank does not come into its group: "rank 1 joining a group of 4".
std::string joining(Rank rank, int size);
/// Likewise, of connecting `me` to `peer`: what `me`'s system lacks is not the peer's fault.
Error while_connecting(const Error& error, const std::string& words, Rank me, Rank peer);

struct StuckReport {
  std::uint64_t communicator = 0;
  Rank me = -1;
  std::vector<CallRecord> calls;
};

/// A whole frame, header included; shared by the queues of all ranks it goes to.
using Frame = std::shared_ptr<const Bytes>;

struct FrameHeader {
  FrameKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t payload = 0;  ///< bytes
};

/// Decoders throw Malformed. Encoders truncate long texts and lists to fit `largest_small_payload`.
Frame make_frame(FrameKind kind, std::span<const std::byte> payload = {});
Frame make_frame(FrameKind kind, const Fault& fault);
Frame make_frame(const Notice& notice);
Frame make_frame(const StuckReport& report);
Frame make_contribution(std::uint64_t number, std::span<const std::byte> bytes);
Frame make_gathered(std::uint64_t number, const std::vector<Bytes>& contributions);

Fault read_fault(std::span<const std::byte> payload);
Notice read_notice(std::span<const std::byte> payload);
StuckReport read_stuck(std::span<const std::byte> payload);
/// Every rank's bytes; the payload without its number.
std::vector<Bytes> read_gathered(std::span<const std::byte> payload, int size);

}  // namespace tutti::bootstrap
