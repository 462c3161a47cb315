/// \file
/// What is thrown.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::test {

/// The code with which `body` throws a tutti::Error, and its ranks and text.
struct Thrown {
  std::optional<ErrorCode> code;
  std::vector<Rank> ranks;
  std::string text;
};
inline Thrown thrown_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.ranks(), error.what()};
  }
  return {};
}

}  // namespace tutti::test
