#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include <tutti/error.hpp>

#include "base/json_depth.hpp"
#include "collectives/algorithms.hpp"
#include "tuning/file.hpp"

namespace tutti::tuning {

namespace {

using Json = nlohmann::ordered_json;
using Given = nlohmann::json;  // reads keys in a tree: ordered_json compares each with all before it
constexpr int version = 2;
constexpr std::array cost_names = {"call", "alpha", "overhead", "step", "copy", "fold"};

// Becomes an Error with the name of the text.
[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

// get<> alone takes 2.5 for 2, true for 1 and -1 for 2^64 - 1.
std::uint64_t whole(const Given& json, const std::string& what, std::uint64_t least, std::uint64_t most) {
  const bool is_whole = json.is_number_unsigned();
  const std::uint64_t number = is_whole ? json.get<std::uint64_t>() : 0;
  if (!is_whole || number < least || number > most)
    refuse(fmt::format("\"{}\" is no whole number from {} to {}", what, least, most));
  return number;
}

int count(const Given& json, const std::string& what, std::uint64_t least) {
  return static_cast<int>(whole(json, what, least, std::numeric_limits<int>::max()));
}

std::size_t size(const Given& json, const std::string& what) {
  return whole(json, what, 1, largest_of(largest_class));
}

// Products of a few of them, of bytes and of steps remain numbers.
double positive(const Given& json, const std::string& what) {
  constexpr double least = 1e-100, most = 1e100;
  const auto number = json.get<double>();
  if (number < least || number > most)
    refuse(fmt::format("\"{}\" is no number from {:g} to {:g}", what, least, most));
  return number;
}

// Whatever else stands there would count as a list of one, or of none.
const Given::array_t& list(const Given& json, const char* key) {
  return json.at(key).get_ref<const Given::array_t&>();
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

Curve curve_of(const Given& json) {
  Curve curve{.transport = json.at("transport").get<std::string>(),
              .ranks = count(json.at("ranks"), "ranks", 1),
              .cpus = count(json.at("cpus"), "cpus", 0)};
  for (const Given& from : list(json, "points")) {
    Point point{.bytes = size(from.at("bytes"), "bytes")};
    if (!curve.points.empty() && point.bytes <= curve.points.back().bytes) refuse("sizes do not ascend");
    for (std::size_t i = 0; i < cost_names.size(); ++i)
      point.costs.*simulation::host_costs[i] = positive(from.at(cost_names[i]), cost_names[i]);
    for (const auto& [key, factor] : from.at("factors").get_ref<const Given::object_t&>())
      point.factors[key] = positive(factor, key);
    curve.points.push_back(point);
  }
  if (curve.points.empty()) refuse("a curve has no points");
  return curve;
}

// The algorithm of the sizes above those of the range before it, up to `up_to`.
void keep_range(const Given& json, std::map<Scene, Choices>& kept) {
  const auto operation = json.at("operation").get<std::string>();
  const auto called = json.at("algorithm").get<std::string>();
  const Algorithm* algorithm = algorithm_named(operation, called);
  if (algorithm == nullptr || algorithm->one_sided || algorithm->by_nodes != nullptr)
    refuse("\"" + called + "\" is no algorithm of " + operation + " that can be chosen");
  const Collective collective = algorithm->collective;
  Choices& choices = kept[{.transport = json.at("transport").get<std::string>(),
                           .ranks = count(json.at("ranks"), "ranks", 1),
                           .cpus = count(json.at("cpus"), "cpus", 0)}];
  const int last = size_class(size(json.at("up_to"), "up_to"));
  if (choices.has(collective, last)) refuse(fmt::format("sizes of {} do not ascend", operation));
  for (int sizes = last; sizes >= 0; --sizes)
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
    if (nests_too_deep(text)) refuse(fmt::format("it nests deeper than {}", most_json_depth));
    const Given json = Given::parse(text);
    if (json.at("tutti_tuning") != version) refuse("its version is not that of this library");
    if (auto refused = json.value("refused", ""); !refused.empty())
      return std::make_unique<const Tuning>(std::move(refused));
    std::vector<Curve> curves;
    std::set<std::pair<std::string, int>> told;
    for (const Given& from : list(json, "curves")) {
      const Curve& curve = curves.emplace_back(curve_of(from));
      if (!told.emplace(curve.transport, curve.ranks).second)
        refuse(fmt::format("two curves are of {} ranks by {}", curve.ranks, curve.transport));
    }
    auto tuning = std::make_unique<Tuning>(
        whole(json.at("machine"), "machine", 0, std::numeric_limits<std::uint64_t>::max()),
        std::move(curves));
    std::map<Scene, Choices> kept;
    for (const Given& range : list(json, "choices")) keep_range(range, kept);
    for (auto& [scene, choices] : kept) tuning->keep(scene, std::move(choices));
    return tuning;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::invalid_argument, "tuning " + name + ": " + error.what() + std::string(remedy));
  }
}

}  // namespace tutti::tuning
