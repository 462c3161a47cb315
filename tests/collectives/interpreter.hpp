/// \file
/// Runs a schedule on numbers, lanes in a random order: what the verifier says must hold here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tutti/verify.hpp>

namespace tutti::test {

/// What went wrong in one run with one random timing: a deadlock, a wrong number, a barrier left too early.
/// FIFOs have room for `room` messages. The schedule must be well formed.
std::optional<std::string> interpret(const Schedule& schedule, const VerifyOptions& options, int room,
                                     unsigned seed);

}  // namespace tutti::test
