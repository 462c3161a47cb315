/// \file
/// What every transport must do, as a list of checks that a transport passes or fails.
///
/// A check throws Violation; that makes the suite itself testable: conformance_test.cpp also runs it on
/// transports with planted faults, which it must reject. To put a transport under test:
///
///     INSTANTIATE_TEST_SUITE_P(Shm, Conformance, conformance_of({.name = "shm", .make = make_shm}),
///     conformance_name);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport::testing {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// A transport under test.
struct Subject {
  std::string name;  ///< letters and digits
  std::function<Transports(int)>
      make;                   ///< set up for a number of ranks, by rank; they are threads of this process
  bool notices_loss = true;   ///< throws Error(peer_lost) by itself; else the session's lifeline must do it
  bool carries_sizes = true;  ///< finds messages of another size, even of the same tag
  std::chrono::milliseconds patience{120000};  ///< before a check calls silence a deadlock
};

/// The transport does not do what the contract says.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The check asks for what the contract leaves open and this transport leaves out.
struct NotOffered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Check {
  const char* name;
  void (*run)(const Subject&);
};

/// All of them.
std::vector<Check> checks();
std::vector<Check> data_checks();
std::vector<Check> credit_checks();
std::vector<Check> failure_checks();
std::vector<Check> multicast_checks();
/// Throws std::out_of_range.
Check check_named(const std::string& name);

class Conformance : public ::testing::TestWithParam<std::tuple<Subject, Check>> {};

inline auto conformance_of(const Subject& subject) {
  return ::testing::Combine(::testing::Values(subject), ::testing::ValuesIn(checks()));
}
inline std::string conformance_name(const ::testing::TestParamInfo<Conformance::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}
inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }
inline void PrintTo(const Check& check, std::ostream* out) { *out << check.name; }

}  // namespace tutti::transport::testing
