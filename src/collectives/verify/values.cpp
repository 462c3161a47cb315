#include "collectives/verify/values.hpp"

#include <algorithm>
#include <limits>

namespace tutti::proof {
namespace {

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that looks random.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t commutative(std::uint64_t a, std::uint64_t b) {
  return mix(mix(std::min(a, b)) ^ std::max(a, b));
}

}  // namespace

Value contribution(Rank rank, int chunk, int piece) {
  const auto place = (static_cast<std::uint64_t>(rank) << 32U) | static_cast<std::uint32_t>(chunk);
  const std::uint64_t seed = mix(place) ^ mix(~static_cast<std::uint64_t>(piece));
  return {{mix(seed), mix(seed ^ 0x5851f42d4c957f2dU)}, mix(~seed), mix(~seed), 1, false};
}

void add(Value& value, const Value& source) {
  value.contributions[0] += source.contributions[0];
  value.contributions[1] += source.contributions[1];
  value.expression = commutative(value.expression, source.expression);
  value.order = commutative(value.order, source.order);
  value.count = source.count > std::numeric_limits<std::uint32_t>::max() - value.count
                    ? std::numeric_limits<std::uint32_t>::max()
                    : value.count + source.count;
  value.finished = false;
}

void round(Value& value) { value.expression = mix(value.expression); }

}  // namespace tutti::proof
