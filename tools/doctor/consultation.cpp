#include "doctor/consultation.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include <tutti/communicator.hpp>
#include <tutti/error.hpp>

#include "base/processors.hpp"
#include "bootstrap/environment.hpp"
#include "doctor/examine.hpp"
#include "doctor/measure.hpp"
#include "doctor/report.hpp"
#include "output_file.hpp"
#include "run_tool.hpp"

namespace tutti::doctor {

namespace {

/// Gives machines of one name (network namespaces) names of their own.
void distinguish(std::vector<Machine>& machines) {
  std::map<std::string, int> seen;
  for (auto& machine : machines)
    if (const int number = ++seen[machine.name]; number > 1) machine.name += fmt::format(" ({})", number);
}

/// The findings of every machine, made by its first rank. Collective.
std::vector<MachineReport> examine_all(Team& team, const std::vector<Machine>& machines,
                                       const std::string& interface) {
  const Machine& mine = machines.at(machine_of(machines, team.rank()));
  nlohmann::json found = nlohmann::json::array();
  if (mine.ranks.front() == team.rank())
    found = to_json(examine_machine(
        Root(), {.count = static_cast<int>(mine.ranks.size()), .processors = mine.processors}, interface));
  const auto all = team.gather(found);
  std::vector<MachineReport> reports;
  for (const Machine& machine : machines) {
    MachineReport report{.machine = machine, .findings = {}};
    for (const auto& json : all.at(static_cast<std::size_t>(machine.ranks.front())))
      report.findings.push_back(finding_from(json));
    reports.push_back(std::move(report));
  }
  return reports;
}

Findings pairs(Team& team, const std::vector<Machine>& machines, const Settings& settings) {
  const std::string& transport = settings.options.transport;
  const bool measures = settings.pairs && team.size() > 1;
  try {
    if (!measures) Communicator(UniqueId(), 0, 1, settings.options);  // for what it makes of variables
  } catch (const Error& error) {
    return {{.area = "pairs", .level = Level::error, .what = error.what()}};
  }
  if (!measures && !transport.empty())
    return {{.area = "pairs",
             .level = Level::warning,
             .what = fmt::format("transport {} was not tried: no pairs of ranks were measured", transport),
             .remedy = fmt::format("tutti-doctor --transport {} --ranks 2, or under mpirun; not --no-pairs",
                                   transport)}};
  if (!settings.pairs) return {};
  if (!measures)
    return {{.area = "pairs",
             .level = Level::note,
             .what = "one rank has no pairs to measure",
             .remedy = "tutti-doctor --ranks 2, or mpirun tutti-doctor"}};
  try {
    return examine(measure_pairs(team, machines, settings.options));
  } catch (const Error& error) {
    return {{.area = "pairs", .level = Level::error, .what = error.what()}};
  }
}

/// Everything but the group works: this machine alone.
Report alone(const Settings& settings, const Error& error) {
  Machine machine{
      .name = "this machine", .ranks = {0}, .processors = static_cast<int>(allowed_processors().size())};
  Report report;
  report.machines.push_back({machine, examine_machine(Root(), {.count = 1, .processors = machine.processors},
                                                      settings.options.interface)});
  Finding finding{.area = "pairs",
                  .level = Level::error,
                  .what = std::string("the ranks do not come together: ") + error.what()};
  if (error.code() == ErrorCode::timeout)  // what other errors are, they say
    finding.remedy =
        "let TCP through to the machine of rank 0 (its firewall, security groups), or name a network that "
        "leads there: TUTTI_INTERFACE";
  report.pairs.push_back(std::move(finding));
  return report;
}

/// Rank 0's report: words to `to` and JSON to a file, or JSON to `to` alone.
class Output {
 public:
  Output(std::FILE* to, const std::string& json) : to_(to), only_json_(json == "-") {
    if (!json.empty() && !only_json_) json_.emplace(json);
  }
  void show(const Report& report) {
    if (only_json_) return fmt::print(to_, "{}", to_json(report));
    for (const auto& machine : report.machines) print(to_, machine);
    print_findings(to_, report.pairs);
    print_tail(to_, report);
    if (json_) json_->write(to_json(report));
  }

 private:
  std::FILE* to_;
  bool only_json_;
  std::optional<OutputFile> json_;
};

bool consult_as(Rank rank, const Settings& settings, std::FILE* to) {
  std::optional<Team> team;
  try {
    team.emplace(settings.options.interface, settings.options.timeout);
  } catch (const Error& error) {
    if (rank != 0) throw;
    Output(to, settings.json).show(alone(settings, error));
    return false;
  }
  std::optional<Output> output;
  if (team->rank() == 0) output.emplace(to, settings.json);
  auto machines = team->machines();
  distinguish(machines);
  Report report{.machines = examine_all(*team, machines, settings.options.interface),
                .pairs = pairs(*team, machines, settings)};
  if (!output) return true;
  output->show(report);
  return worst(report) != Level::error;
}

}  // namespace

bool consult(const Settings& settings, std::FILE* to) {
  const auto launch =
      bootstrap::launch_from_environment(settings.options.interface, settings.options.timeout);
  return printing_as("tutti-doctor", launch.rank, [&] { return consult_as(launch.rank, settings, to); });
}

}  // namespace tutti::doctor
