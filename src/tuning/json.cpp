#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include <tutti/error.hpp>

#include "collectives/algorithms.hpp"
#include "tuning/file.hpp"

namespace tutti::tuning {

namespace {

using Json = nlohmann::ordered_json;
constexpr int version = 2;
constexpr std::array cost_names = {"call", "alpha", "overhead", "step", "copy", "fold"};

// Becomes an Error with the name of the text.
[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

int count(const Json& json, const std::string& what, int least) {
  const auto number = json.get<int>();
  if (number < least) refuse(what + " are fewer than " + std::to_string(least));
  return number;
}

double positive(const Json& json, const std::string& what) {
  const auto number = json.get<double>();
  if (!std::isfinite(number) || number <= 0) refuse(what + " is no positive number");
  return number;
}

Json json_of(const Curve& curve) {
  Json points = Json::array();
  for (const Point& point : curve.points) {
    Json json = {{"bytes", point.bytes}};
    for (std::size_t i = 0; i < cost_names.size(); ++i)
      json[cost_names[i]] = point.costs.*simulation::host_costs[i];
    json["factors"] = point.factors;
    points.push_back(std::move(json));
  }
  return {{"transport", curve.transport},
          {"ranks", curve.ranks},
          {"cpus", curve.cpus},
          {"points", std::move(points)}};
}

Curve curve_of(const Json& json) {
  Curve curve{.transport = json.at("transport").get<std::string>(),
              .ranks = count(json.at("ranks"), "ranks", 1),
              .cpus = count(json.at("cpus"), "cpus", 0)};
  for (const Json& from : json.at("points")) {
    Point point{.bytes = from.at("bytes").get<std::size_t>()};
    if (!curve.points.empty() && point.bytes <= curve.points.back().bytes) refuse("sizes do not ascend");
    for (std::size_t i = 0; i < cost_names.size(); ++i)
      point.costs.*simulation::host_costs[i] = positive(from.at(cost_names[i]), cost_names[i]);
    for (const auto& [key, factor] : from.at("factors").items()) point.factors[key] = positive(factor, key);
    curve.points.push_back(point);
  }
  if (curve.points.empty() || curve.points[0].bytes == 0) refuse("a curve has no points, or one of no bytes");
  return curve;
}

// The algorithm of the sizes above those of the range before it, up to `up_to`.
void keep_range(const Json& json, std::map<Scene, Choices>& kept) {
  const auto operation = json.at("operation").get<std::string>();
  const auto called = json.at("algorithm").get<std::string>();
  const Algorithm* algorithm = algorithm_named(operation, called);
  if (algorithm == nullptr || algorithm->one_sided || algorithm->by_nodes != nullptr)
    refuse("\"" + called + "\" is no algorithm of " + operation + " that can be chosen");
  const Collective collective = algorithm->collective;
  Choices& choices = kept[{.transport = json.at("transport").get<std::string>(),
                           .ranks = json.at("ranks").get<int>(),
                           .cpus = count(json.at("cpus"), "cpus", 0)}];
  for (int sizes = size_class(json.at("up_to").get<std::size_t>()); sizes >= 0; --sizes)
    if (!choices.has(collective, sizes)) choices.keep(collective, sizes, algorithm);
}

Json ranges_of(const Tuning& tuning) {
  Json ranges = Json::array();
  for (const auto& [scene, choices] : tuning.kept())
    for (auto at = choices.all().begin(); at != choices.all().end(); ++at) {
      const auto& [collective, sizes] = at->first;
      const auto after = std::next(at);
      if (after != choices.all().end() && after->first == Choices::Key{collective, sizes + 1} &&
          after->second == at->second)
        continue;
      ranges.push_back({{"transport", scene.transport},
                        {"operation", name(collective)},
                        {"ranks", scene.ranks},
                        {"cpus", scene.cpus},
                        {"up_to", largest_of(sizes)},
                        {"algorithm", at->second->name}});
    }
  return ranges;
}

}  // namespace

std::string to_json(const Tuning& tuning) {
  Json curves = Json::array();
  for (const Curve& curve : tuning.curves()) curves.push_back(json_of(curve));
  Json all = {{"tutti_tuning", version},
              {"machine", tuning.machine()},
              {"units", "seconds; copy and fold: seconds a byte"},
              {"curves", std::move(curves)},
              {"choices", ranges_of(tuning)}};
  if (!tuning.refused().empty()) all["refused"] = tuning.refused();
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::unique_ptr<const Tuning> from_json(std::string_view text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    if (json.at("tutti_tuning").get<int>() != version) refuse("its version is not that of this library");
    if (auto refused = json.value("refused", ""); !refused.empty())
      return std::make_unique<const Tuning>(std::move(refused));
    std::vector<Curve> curves;
    for (const Json& curve : json.at("curves")) curves.push_back(curve_of(curve));
    auto tuning = std::make_unique<Tuning>(json.at("machine").get<std::uint64_t>(), std::move(curves));
    std::map<Scene, Choices> kept;
    for (const Json& range : json.at("choices")) keep_range(range, kept);
    for (auto& [scene, choices] : kept) tuning->keep(scene, std::move(choices));
    return tuning;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::invalid_argument, "tuning " + name + ": " + error.what() + std::string(remedy));
  }
}

}  // namespace tutti::tuning
