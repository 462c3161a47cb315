/// \file
/// Plain values to bytes and back, little-endian, with the reader never beyond what arrived.
#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bootstrap/session.hpp"

namespace tutti::bootstrap {

static_assert(std::endian::native == std::endian::little, "values go over the wire as they lie in memory");

class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> Writer& put(T value) {
    return put(std::as_bytes(std::span(&value, 1)));
  }
  Writer& put(std::span<const std::byte> raw) {
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  /// At most `longest` bytes of it.
  Writer& put(std::string_view text, std::size_t longest) {
    text = text.substr(0, longest);
    put(static_cast<std::uint32_t>(text.size()));
    return put(std::as_bytes(std::span(text)));
  }
  /// At most `most` of them.
  Writer& put(std::span<const Rank> ranks, std::size_t most) {
    ranks = ranks.first(std::min(most, ranks.size()));
    put(static_cast<std::uint32_t>(ranks.size()));
    return put(std::as_bytes(ranks));
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Malformed input: the peer, though authenticated, is not of this version.
struct Malformed {};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, get(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> get(std::size_t count) {
    if (count > rest_.size()) throw Malformed{};
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string text() {
    const auto raw = get(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::vector<Rank> ranks() {
    const auto count = get<std::uint32_t>();
    const auto raw = get(count * sizeof(Rank));
    std::vector<Rank> ranks(count);
    if (count > 0) std::memcpy(ranks.data(), raw.data(), raw.size());
    return ranks;
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace tutti::bootstrap
