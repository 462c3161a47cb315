/// \file
/// How a message is divided among rails.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti::transport::verbs {

struct Part {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Equal on both ends. The last parts may be empty.
constexpr int parts_of(std::size_t bytes, int rails, std::size_t stripe_from) {
  return bytes >= stripe_from ? rails : 1;
}

/// Parts begin at whole pages of the message.
constexpr Part part_of(std::size_t bytes, int parts, int index) {
  constexpr std::size_t page = 4096;
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t share = parts == 1 ? bytes : ((bytes + count - 1) / count + page - 1) / page * page;
  const std::size_t offset = std::min(bytes, share * static_cast<std::size_t>(index));
  return {offset, std::min(share, bytes - offset)};
}

/// Work requests that a part takes: the port limits how long one may be, and the signal may be one more.
constexpr std::size_t requests_of(std::size_t bytes, std::size_t longest, bool extra_signal) {
  return std::max<std::size_t>(1, (bytes + longest - 1) / longest) + (extra_signal ? 1 : 0);
}

}  // namespace tutti::transport::verbs
