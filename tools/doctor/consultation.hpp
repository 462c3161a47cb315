/// \file
/// One rank's work, from the launcher to the report.
#pragma once

#include <cstdio>

#include "doctor/settings.hpp"

namespace tutti::doctor {

/// Examines all machines and pairs together with the other ranks; rank 0 prints to `to` and writes the JSON.
/// True when no finding is an error; true on other ranks. A group that cannot form is a finding too. Throws
/// Printed where rank 0 does not learn of it, and where the file of JSON cannot be written.
bool consult(const Settings& settings, std::FILE* to);

}  // namespace tutti::doctor
