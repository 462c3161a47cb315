/// \file
/// What tools return besides EXIT_SUCCESS and EXIT_FAILURE.
#pragma once

namespace tutti {

inline constexpr int usage_error = 2;

}  // namespace tutti
