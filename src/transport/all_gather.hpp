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

[[noreturn]] inline void throw_another_build(Rank rank) {
  throw Error(ErrorCode::mismatch,
              "rank " + std::to_string(rank) +
                  " runs another build of tutti, or chooses among other transports; give all ranks the same",
              {rank});
}

/// Every rank's value, by rank. Collective. Throws Error(mismatch) when values of some rank have another
/// size.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(const Group& group, const T& mine) {
  std::vector<T> all;
  for (const auto& bytes : group.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    if (bytes.size() != sizeof(T)) throw_another_build(static_cast<Rank>(all.size()));
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

/// What a rank says: a value and a text.
template <class T>
struct Said {
  T value;
  std::string text;
};

/// The same for both at once. The value's size goes first, so that ranks notice when they speak of different
/// things.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<Said<T>> all_gather(const Group& group, const T& mine,
                                                                         const std::string& text) {
  const std::size_t size = sizeof(T);
  constexpr std::size_t fixed = sizeof size + sizeof(T);
  std::vector<std::byte> message(fixed + text.size());
  std::memcpy(message.data(), &size, sizeof size);
  std::memcpy(message.data() + sizeof size, &mine, sizeof mine);
  std::memcpy(message.data() + fixed, text.data(), text.size());
  std::vector<Said<T>> all;
  for (const auto& bytes : group.all_gather(message)) {
    std::size_t theirs = 0;
    if (bytes.size() >= fixed) std::memcpy(&theirs, bytes.data(), sizeof theirs);
    if (theirs != size) throw_another_build(static_cast<Rank>(all.size()));
    Said<T>& said = all.emplace_back();
    std::memcpy(&said.value, bytes.data() + sizeof size, sizeof(T));
    said.text.assign(reinterpret_cast<const char*>(bytes.data()) + fixed, bytes.size() - fixed);
  }
  return all;
}

}  // namespace tutti::transport
