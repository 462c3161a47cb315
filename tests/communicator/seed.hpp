/// \file
/// Where random tests begin.
#pragma once

#include <cstdlib>
#include <random>

namespace tutti::test {

/// TUTTI_TEST_SEED, by which a run that failed is repeated (scripts/run-ctest sets it for both tries of a
/// test); else another one each time. Tests name it.
inline unsigned chosen_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text == nullptr ? std::random_device{}() : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace tutti::test
