/// \file
/// Every pair of ranks: whether and how they reach each other, how soon and how fast.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "doctor/finding.hpp"

namespace tutti::doctor {

/// A TCP connection that did not come about.
struct Blocked {
  int from = 0, to = 0;
  std::string address{};  ///< of the listener
  std::string why{};
};

/// Measured by ping-pong; `a` < `b`.
struct Pair {
  int a = 0, b = 0;
  std::string error{};                  ///< why it could not be measured; empty: it was
  ErrorCode code = ErrorCode::timeout;  ///< of that error
  std::string transport{};              ///< "shm", "verbs", "tcp"
  std::string explanation{};            ///< the transport's own
  double latency_us = 0;                ///< of 8 bytes, one way
  double gigabytes = 0;                 ///< per second, of 4 MiB, one way
};

/// What one of the two met. Of both, the cause stays: who hears of the other one's failure says less about
/// it.
void note_failure(Pair& pair, ErrorCode code, const std::string& error);

struct PairFacts {
  std::vector<std::string> machine{};  ///< [rank]; different machines have different names
  std::vector<Blocked> blocked{};
  std::vector<Pair> pairs{};
  bool given_up = false;  ///< after so many errors the other pairs were not tried
  int left_out = 0;       ///< ranks that were not measured, because they are many
  std::string ports{};    ///< "32768-60999", from which the system takes those of listeners
  std::string wanted{};   ///< the transport that was asked for; empty: tutti chose
};

Findings examine(const PairFacts& facts);

}  // namespace tutti::doctor
