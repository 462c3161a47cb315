/// \file
/// Transports with a planted fault, to prove that the conformance suite can fail.
#pragma once

#include <memory>
#include <string>

#include "conformance.hpp"

namespace tutti::transport::testing {

enum class Fault : std::uint8_t {
  none,
  drops_a_message,
  doubles_a_message,
  swaps_two_messages,
  corrupts_a_byte,
  copies_late,          ///< unstable memory is read after try_send returned
  flushes_in_name,      ///< `flushed` is true while stable memory is still to be read
  moves_reserved_room,  ///< every try_reserve gives other room
  moves_views,          ///< every try_acquire gives another copy
  changes_views,        ///< a view is overwritten before its release
  lacks_a_credit,
  swallows_without_end,
  ignores_tags,
  ignores_loss,
  forgets_on_leaving,  ///< what was sent last is lost with its sender
  writes_too_far,      ///< a byte behind the end of a received message
  counts_wrongly,
  sleeps_through,  ///< `wait` always takes as long as it may
};

/// The subject, with the fault in each of its FIFOs.
Subject with_fault(const Subject& subject, Fault fault);

}  // namespace tutti::transport::testing
