/// \file
/// One machine, looked at from all sides.
#pragma once

#include <string>

#include "doctor/finding.hpp"
#include "doctor/processors.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

/// The findings of every area, in a fixed order. An area that cannot be examined is a finding itself.
/// `interface`: by which ranks were told to meet; empty: they were not.
Findings examine_machine(const Root& root, const RanksHere& ranks, const std::string& interface);

}  // namespace tutti::doctor
