/// \file
/// A failure of some rank while ranks connect, told to all.
#pragma once

#include <string>

#include <tutti/error.hpp>

#include "gpu/setting.hpp"

namespace tutti::gpu {

/// What did not work on some rank is thrown on all ranks. `mine`: empty when all is well here. Collective.
void fail_together(const Setting& setting, ErrorCode code, const std::string& mine);

}  // namespace tutti::gpu
