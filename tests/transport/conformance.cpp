#include "conformance.hpp"

#include <algorithm>

namespace tutti::transport::testing {

std::vector<Check> checks() {
  std::vector<Check> all;
  for (const auto& part : {data_checks(), credit_checks(), failure_checks(), multicast_checks()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

Check check_named(const std::string& name) {
  const auto all = checks();
  const auto found = std::ranges::find(all, name, [](const Check& check) { return std::string(check.name); });
  if (found == all.end()) throw std::out_of_range("no check is called " + name);
  return *found;
}

TEST_P(Conformance, Holds) {
  const auto& [subject, check] = GetParam();
  try {
    check.run(subject);
  } catch (const NotOffered& reason) {
    GTEST_SKIP() << reason.what();
  } catch (const Mismatch& mismatch) {
    FAIL() << "Mismatch, expected tag " << mismatch.expected << ", found " << mismatch.found;
  }
}

}  // namespace tutti::transport::testing
