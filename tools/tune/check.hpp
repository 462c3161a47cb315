/// \file
/// How good the library's choices and the simulator's predictions are on this machine.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tune/measure.hpp"

namespace tutti::tune {

/// One question.
struct Verdict {
  tuning::Question question;
  std::string best{};  ///< the fastest forced algorithm
  double best_seconds = 0;
  double chosen_seconds = 0;     ///< of the library's choice
  double regret = 0;             ///< see regret_of
  std::vector<double> errors{};  ///< of every forced algorithm: predicted / measured - 1
};

/// What the choice loses: its time, undisturbed, over that of the fastest of the others, less one. Which is
/// the fastest is told by the rounds that are not compared, since of several that are alike one is always
/// ahead by chance. `chosen`, and each of `others`: as many rounds, at least one.
double regret_of(const std::vector<double>& chosen, const std::vector<std::vector<double>>& others);

/// `measured`: all ways of each question, "" the library's.
std::vector<Verdict> judge(const std::vector<Measured>& measured, const tuning::Tuning& tuning);
/// A line an operation and number of ranks, and one of all.
void print(std::FILE* to, const std::vector<Verdict>& verdicts);
/// All of both, as JSON.
std::string to_json(const std::vector<Verdict>& verdicts, const std::vector<Measured>& measured);

}  // namespace tutti::tune
