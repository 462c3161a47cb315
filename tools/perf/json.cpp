#include <nlohmann/json.hpp>

#include "json_text.hpp"
#include "perf/report.hpp"

namespace tutti::perf {

namespace {

nlohmann::json or_null(const std::optional<std::uint64_t>& wrong) {
  return wrong ? nlohmann::json(*wrong) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const Result& result) {
  nlohmann::json json{{"time_us", result.time.median},  {"p10_us", result.time.p10},
                      {"p90_us", result.time.p90},      {"algbw_gbs", result.algbw},
                      {"busbw_gbs", result.busbw},      {"iterations", result.time.iterations},
                      {"batches", result.time.batches}, {"wrong", or_null(result.wrong)}};
  return json;
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json json{{"size", row.bytes},      {"count", row.count},
                      {"type", name(row.type)}, {"redop", row.reduction},
                      {"root", row.root},       {"out_of_place", to_json(row.out_of_place)},
                      {"in_place", nullptr}};
  if (row.in_place) json["in_place"] = to_json(*row.in_place);
  return json;
}

}  // namespace

std::string to_json(const Settings& settings, const std::vector<Place>& places,
                    const std::vector<Row>& rows) {
  nlohmann::json json{{"operation", settings.benchmark.name},
                      {"transport", settings.options.transport},
                      {"algorithm", settings.options.algorithm},
                      {"registered", settings.registered},
                      {"rewrite", settings.rewrite},
                      {"ranks", nlohmann::json::array()},
                      {"rows", nlohmann::json::array()}};
  for (const Place& place : places)
    json["ranks"].push_back({{"host", place.host}, {"pid", place.pid}, {"core", place.core}});
  for (const Row& row : rows) json["rows"].push_back(to_json(row));
  const Summary summary = summarise(rows);
  json["wrong"] = or_null(summary.wrong);
  json["average_busbw_gbs"] = summary.average_busbw;
  return json_text(json, 2) + '\n';
}

}  // namespace tutti::perf
