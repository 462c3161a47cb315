/// \file
/// What NCCL_DEBUG asks for, in the form that NCCL's users know: "host:pid:tid [device] NCCL INFO text", on
/// standard output or in NCCL_DEBUG_FILE (%h is the host, %p the process).
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::nccl {

enum class Level : std::uint8_t { none, version, warn, info };

/// Reads NCCL_DEBUG anew.
void reset_log();
/// `device`: -1 where none is meant. Never throws. Thread safe.
void log(Level level, int device, std::string_view text) noexcept;

}  // namespace tutti::nccl
