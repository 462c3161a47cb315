#include "gpu/parts.hpp"

#include <cstdint>
#include <cstring>

namespace tutti::gpu {

namespace {

template <class T>
std::uint32_t append(std::vector<std::byte>& to, const std::vector<T>& array) {
  const std::size_t at = (to.size() + alignof(T) - 1) / alignof(T) * alignof(T);
  to.resize(at + array.size() * sizeof(T));
  if (!array.empty()) std::memcpy(to.data() + at, array.data(), array.size() * sizeof(T));
  return static_cast<std::uint32_t>(at);
}

}  // namespace

std::vector<std::byte> pack(Parts& parts) {
  std::vector<std::byte> flat(sizeof parts.header);
  parts.header.lanes = static_cast<std::uint32_t>(parts.lanes.size());
  parts.header.lanes_at = append(flat, parts.lanes);
  parts.header.parts_at = append(flat, parts.parts);
  parts.header.instructions_at = append(flat, parts.instructions);
  parts.header.operands_at = append(flat, parts.operands);
  std::memcpy(flat.data(), &parts.header, sizeof parts.header);
  return flat;
}

}  // namespace tutti::gpu
