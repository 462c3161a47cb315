/// \file
/// The findings, for people and for programs.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/team.hpp"

namespace tutti::doctor {

struct MachineReport {
  Machine machine{};
  Findings findings{};
};

struct Report {
  std::vector<MachineReport> machines{};
  Findings pairs{};
};

Level worst(const Report& report);
/// Lines of at most 100 columns; each area under its name.
void print_findings(std::FILE* to, const Findings& findings);
void print(std::FILE* to, const MachineReport& report);
/// How many findings there are of each level.
void print_tail(std::FILE* to, const Report& report);
/// The text of a file.
std::string to_json(const Report& report);

}  // namespace tutti::doctor
