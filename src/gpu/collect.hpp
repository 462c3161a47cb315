/// \file
/// What the ranks tell each other while they connect.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tutti/error.hpp>

#include "gpu/setting.hpp"

namespace tutti::gpu {

/// Everybody's value, by rank. Collective. Throws Error(mismatch).
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(const Setting& setting, const T& mine) {
  std::vector<T> all;
  for (const auto& bytes : setting.group.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    if (bytes.size() != sizeof(T)) throw Error(ErrorCode::mismatch, "ranks run different versions of tutti");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}
inline std::vector<std::string> all_gather(const Setting& setting, const std::string& mine) {
  std::vector<std::string> all;
  for (const auto& bytes : setting.group.all_gather(std::as_bytes(std::span(mine))))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

/// What did not work on some rank is thrown on all ranks. `mine`: empty when all is well here. Collective.
void fail_together(const Setting& setting, ErrorCode code, const std::string& mine);

}  // namespace tutti::gpu
