/// \file
/// Constants of machines on which the choice is clear.
#pragma once

#include "tuning/tuning.hpp"

namespace tutti::tuning {

/// Messages cost much, bytes nothing.
inline const simulation::HostCosts slow_messages{
    .call = 1e-7, .alpha = 1e-3, .overhead = 1e-9, .step = 1e-9, .copy = 1e-15, .fold = 1e-15};
/// The other way round.
inline const simulation::HostCosts slow_bytes{
    .call = 1e-9, .alpha = 1e-9, .overhead = 1e-9, .step = 1e-9, .copy = 1e-6, .fold = 1e-6};

inline Tuning of(const simulation::HostCosts& costs) { return {7, {{"shm", 4, {{1024, costs}}}}}; }

}  // namespace tutti::tuning
