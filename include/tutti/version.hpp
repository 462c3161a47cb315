/// \file
/// Which tutti this is.
#pragma once

#include <string_view>

namespace tutti {

/// Of these headers: "MAJOR.MINOR.PATCH". Before 1.0, versions with the same MAJOR.MINOR fit together.
inline constexpr std::string_view header_version = "0.1.0";

/// Of the library that is linked, which may be another one where it is shared. Never throws; from any thread.
std::string_view version() noexcept;

}  // namespace tutti
