/// \file
/// What ranks tell each other while a transport or a communicator is made.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tutti/error.hpp>

#include "transport/transport.hpp"

namespace tutti::transport {

/// Every rank's value, by rank. Collective. Throws Error(mismatch) when values of some rank have another
/// size.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(const Group& group, const T& mine) {
  std::vector<T> all;
  for (const auto& bytes : group.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    if (bytes.size() != sizeof(T)) throw Error(ErrorCode::mismatch, "ranks run different versions of tutti");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}

/// The same for text, of any length.
inline std::vector<std::string> all_gather(const Group& group, const std::string& mine) {
  std::vector<std::string> all;
  for (const auto& bytes : group.all_gather(std::as_bytes(std::span(mine))))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

}  // namespace tutti::transport
