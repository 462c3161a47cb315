#include "tune/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "perf/measure.hpp"
#include "tuning/predict.hpp"

namespace tutti::tune {

namespace {

struct Summary {
  double mean_log = 0;
  const Verdict* worst = nullptr;
  std::size_t count = 0;
  std::vector<double> errors;

  void add(const Verdict& verdict) {
    mean_log += std::log(1 + verdict.regret);
    ++count;
    if (worst == nullptr || verdict.regret > worst->regret) worst = &verdict;
    for (const double error : verdict.errors) errors.push_back(std::abs(error));
  }
};

void print_summary(std::FILE* to, const std::string& title, Summary summary) {
  constexpr double percent = 100;
  fmt::print(to, "{:<26} {:>7.1f} {:>7.1f} {:>14} {:<16}", title,
             percent * (std::exp(summary.mean_log / static_cast<double>(summary.count)) - 1),
             percent * summary.worst->regret, summary.worst->question.bytes, summary.worst->best);
  if (!summary.errors.empty()) {
    std::ranges::sort(summary.errors);
    fmt::print(to, " {:>7.1f} {:>7.1f}", percent * perf::quantile(summary.errors, 0.5),
               percent * perf::quantile(summary.errors, 0.9));
  }
  fmt::print(to, "\n");
}

/// Every other round; of one round, that one.
std::vector<double> half(const std::vector<double>& rounds, std::size_t first) {
  std::vector<double> some;
  for (std::size_t i = first % rounds.size(); i < rounds.size(); i += 2) some.push_back(rounds[i]);
  return some;
}

/// All ways of one question.
Verdict judge(const std::vector<const Measured*>& ways, const tuning::Tuning& tuning) {
  const tuning::Question& q = ways[0]->sample.question;
  Verdict verdict{.question = q};
  std::vector<double> chosen;
  std::vector<std::vector<double>> others;
  for (const Measured* way : ways) {
    const tuning::Sample& sample = way->sample;
    if (sample.algorithm.empty()) {
      verdict.chosen_seconds = sample.seconds;
      chosen = way->rounds;
      continue;
    }
    others.push_back(way->rounds);
    if (verdict.best.empty() || sample.seconds < verdict.best_seconds) {
      verdict.best = sample.algorithm;
      verdict.best_seconds = sample.seconds;
    }
    const Algorithm& algorithm = *find_algorithm(q.collective, sample.algorithm);
    verdict.errors.push_back(
        tuning::predict(q, algorithm, tuning.costs(q.scene, q.bytes)).seconds / sample.seconds - 1);
  }
  verdict.regret = regret_of(chosen, others);
  return verdict;
}

}  // namespace

double regret_of(const std::vector<double>& chosen, const std::vector<std::vector<double>>& others) {
  double logs = 0;
  for (const std::size_t told : {0U, 1U}) {
    const auto best = std::ranges::min_element(
        others, {}, [&](const auto& rounds) { return undisturbed(half(rounds, told)); });
    logs += std::log(undisturbed(half(chosen, 1 - told)) / undisturbed(half(*best, 1 - told)));
  }
  return std::exp(logs / 2) - 1;
}

std::vector<Verdict> judge(const std::vector<Measured>& measured, const tuning::Tuning& tuning) {
  std::vector<Verdict> verdicts;
  for (auto from = measured.begin(); from != measured.end();) {
    std::vector<const Measured*> ways;
    const tuning::Question question = from->sample.question;
    for (; from != measured.end() && from->sample.question == question; ++from) ways.push_back(&*from);
    verdicts.push_back(judge(ways, tuning));
  }
  return verdicts;
}

void print(std::FILE* to, const std::vector<Verdict>& verdicts) {
  fmt::print(to,
             "# regret: time of the choice over the best forced algorithm's, lower quartiles; error: "
             "|predicted / measured - 1|\n");
  fmt::print(to, "{:<26} {:>7} {:>7} {:>14} {:<16} {:>7} {:>7}\n", "transport ranks operation", "regret",
             "worst", "at bytes", "best there", "error", "90 %");
  std::map<std::pair<int, std::string>, Summary> by_operation;
  Summary all;
  for (const Verdict& verdict : verdicts) {
    const tuning::Question& q = verdict.question;
    by_operation[{q.scene.ranks,
                  fmt::format("{} {} {}", q.scene.transport, q.scene.ranks, name(q.collective))}]
        .add(verdict);
    all.add(verdict);
  }
  for (const auto& [key, summary] : by_operation) print_summary(to, key.second, summary);
  if (all.count != 0) print_summary(to, "all", all);
}

std::string to_json(const std::vector<Verdict>& verdicts, const std::vector<Measured>& measured) {
  nlohmann::ordered_json all = {{"questions", nlohmann::ordered_json::array()},
                                {"samples", nlohmann::ordered_json::array()}};
  const auto question = [](const tuning::Question& q) {
    return nlohmann::ordered_json{{"transport", q.scene.transport},
                                  {"operation", name(q.collective)},
                                  {"ranks", q.scene.ranks},
                                  {"bytes", q.bytes}};
  };
  for (const Verdict& verdict : verdicts) {
    auto json = question(verdict.question);
    json["best"] = verdict.best;
    json["best_seconds"] = verdict.best_seconds;
    json["chosen_seconds"] = verdict.chosen_seconds;
    json["regret"] = verdict.regret;
    json["prediction_errors"] = verdict.errors;
    all["questions"].push_back(std::move(json));
  }
  for (const auto& [sample, rounds] : measured) {
    auto json = question(sample.question);
    json["algorithm"] = sample.algorithm.empty() ? "chosen" : sample.algorithm;
    json["seconds"] = sample.seconds;
    json["rounds"] = rounds;
    all["samples"].push_back(std::move(json));
  }
  return all.dump(1) + '\n';
}

}  // namespace tutti::tune
