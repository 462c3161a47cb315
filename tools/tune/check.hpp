/// \file
/// How good the library's choices and the simulator's predictions are on this machine.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tuning/fit.hpp"

namespace tutti::tune {

/// One question.
struct Verdict {
  tuning::Question question;
  std::string best{};  ///< the fastest forced algorithm
  double best_seconds = 0;
  double chosen_seconds = 0;     ///< of the library's choice
  std::vector<double> errors{};  ///< of every forced algorithm: predicted / measured - 1
  [[nodiscard]] double regret() const { return chosen_seconds / best_seconds - 1; }
};

/// `samples`: all ways of each question, "" the library's.
std::vector<Verdict> judge(const std::vector<tuning::Sample>& samples, const tuning::Tuning& tuning);
/// A line an operation and number of ranks, and one of all.
void print(std::FILE* to, const std::vector<Verdict>& verdicts);
void write_json(const std::string& file, const std::vector<Verdict>& verdicts,
                const std::vector<tuning::Sample>& samples);

}  // namespace tutti::tune
